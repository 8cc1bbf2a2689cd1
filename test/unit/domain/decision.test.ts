/** What opposite acts are about, so that the later one counts. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Act, thingOf } from '../../../src/domain/decision.ts'

const A = { account_id: 'a', eab_id: 'e', identifier_id: 'n', spki_sha256: 'ab', job_id: 'j' }

const OPPOSITES: readonly (readonly [one: Act, other: Act])[] = [
  ['signing.stop', 'signing.resume'],
  ['maintenance.set', 'maintenance.set'],
  ['key.block', 'key.unblock'],
  ['acme.prove_compromise', 'key.unblock'],
  ['eab.remove_identifier', 'eab.add_identifier'],
  ['identifier.remove_account', 'identifier.add_account'],
  ['csr_profile.assign', 'csr_profile.unassign'],
  ['eab.assign_csr_profile', 'eab.unassign_csr_profile'],
]

for (const [one, other] of OPPOSITES)
  test(`${one} and ${other} are about one thing`, () => {
    const thing = thingOf({ act: one, details: { ...A, profile_id: 'p' } })
    assert.ok(thing !== undefined)
    assert.equal(thingOf({ act: other, details: { ...A, profile_id: 'q' } }), thing)
  })

test('a bulk revocation that was cancelled or refused does not begin again; one that has ended may', () => {
  const thing = (phase?: string) =>
    thingOf({ act: 'certificate.bulk_revoke', details: { ...A, ...(phase && { phase }) } })
  assert.deepEqual([thing('cancelled'), thing('refused')], [thing('begun'), thing('begun')])
  assert.equal(thing(), undefined)
})

test('most decisions stand for themselves', () => {
  assert.equal(thingOf({ act: 'user.delete', details: {} }), undefined)
})
