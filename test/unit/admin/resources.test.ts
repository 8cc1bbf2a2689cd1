/** Resources of the administration: what follows from their descriptions. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { FAILURE_FILTERS } from '../../../src/admin/resources/accounts.ts'
import { CERTIFICATE_FILTERS, filterOfText, usualSort } from '../../../src/admin/resources/certificates.ts'
import { valuesOf } from '../../../src/admin/resources/filter.ts'
import { parametersOf } from '../../../src/admin/schemas.ts'
import { optionsOf } from '../../../src/cli/admin/filter-options.ts'
import { FAILURE_KINDS } from '../../../src/domain/event.ts'

describe('the usual order of certificates', () => {
  const byIssuance = [{}, { status: 'active' }, { status: 'revoked' }, { renewed: 'false' }, { domain: 'a.test' }]
  for (const filter of [
    ...byIssuance,
    { expiring_before: 'x', account_id: 'y' },
    { status: 'expired', domain: 'a.test' },
  ])
    test(`is by issuance with ${JSON.stringify(filter)}`, () => assert.equal(usualSort(filter), '-issued_at'))
  for (const filter of [{ status: 'expired' }, { expiring_before: 'x' }, { expiring_after: 'x', status: 'active' }])
    test(`is by expiry with ${JSON.stringify(filter)}`, () => assert.equal(usualSort(filter), '-not_after'))
})

describe('what a person types to find certificates', () => {
  const digest = 'Ab'.repeat(32)
  const cases: [string, Record<string, string>][] = [
    ['', {}],
    [' *.shop.test ', { domain_suffix: 'shop.test' }],
    ['01:23:45:67:89:ab:cd', { serial: '0123456789abcd' }],
    [digest, { fingerprint: digest }],
    ['01938c4e-0000-7000-8000-000000000000', { account_id: '01938c4e-0000-7000-8000-000000000000' }],
  ]
  for (const [typed, filter] of cases)
    test(`“${typed}” is ${JSON.stringify(filter)}`, () => assert.deepEqual(filterOfText(typed), filter))
})

describe('a filter', () => {
  test('of failures knows all kinds of them', () =>
    assert.deepEqual(valuesOf(FAILURE_FILTERS.kind.kind).sort(), [...FAILURE_KINDS].sort()))

  test('says the same in the manual and in the help of the command line', () => {
    const options = optionsOf(CERTIFICATE_FILTERS)
    for (const [name, schema] of Object.entries(parametersOf(CERTIFICATE_FILTERS))) {
      const { description = '' } = schema.meta() ?? {}
      const { sentence } = options[name as keyof typeof options]
      assert.ok(sentence.endsWith(description.replaceAll('`', '').replace(/\.$/, '')), `${name}: ${sentence}`)
    }
  })

  test('of the command line refuses a value that it cannot have', () => {
    const { status, renewed } = optionsOf(CERTIFICATE_FILTERS)
    assert.throws(() => status.read('gone'), /is one of active, revoked, expired/)
    assert.throws(() => renewed.read('yes'), /is one of true, false/)
  })
})
