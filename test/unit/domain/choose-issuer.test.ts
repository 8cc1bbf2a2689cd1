/** Which issuer signs: profile, kind of key, validity. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { chooseIssuer, constraintsOfProfiles } from '../../../src/domain/certificate-profile.ts'
import type { SignatureAlgorithm } from '../../../src/shared/pki/algorithms.ts'
import type { NameConstraints } from '../../../src/shared/pki/name-constraints.ts'
import { constraintsOn } from '../../signer/authority.ts'

const NOW = new Date('2026-06-01T00:00:00Z')
const issuer = (id: string, signatureAlgorithm: SignatureAlgorithm, from = '2026-01-01', to = '2027-01-01') => ({
  id,
  signatureAlgorithm,
  notBefore: new Date(from),
  notAfter: new Date(to),
  constraints: [] as NameConstraints[],
})
const ALL = [
  issuer('ec-next', 'SHA256withECDSA', '2026-07-01'),
  issuer('ec', 'SHA384withECDSA'),
  issuer('rsa', 'SHA256withRSA'),
  issuer('ed', 'Ed25519'),
  issuer('rsa-old', 'SHA256withRSA', '2020-01-01', '2026-05-31'),
]

/** Issuers of the profile, key of the request, who signs. */
const ROWS: readonly [string[], string, string | undefined][] = [
  [[], 'ec', 'ec'],
  [[], 'rsa', 'ec'],
  [['rsa'], 'ec', 'rsa'],
  [['ec', 'rsa'], 'ec', 'ec'],
  [['ec', 'rsa'], 'rsa', 'rsa'],
  [['ec', 'rsa'], 'ed25519', 'ec'],
  [['rsa', 'ed'], 'ec', 'ed'],
  [['ec-next', 'ec', 'rsa'], 'ec', 'ec'],
  [['rsa-old', 'rsa'], 'rsa', 'rsa'],
  [['rsa-old', 'ec'], 'rsa', 'ec'],
  [['rsa-old'], 'rsa', undefined],
  [['unknown', 'rsa'], 'rsa', 'rsa'],
  [['unknown'], 'rsa', undefined],
]

describe('the issuer of a certificate', () => {
  for (const [ids, kind, expected] of ROWS)
    test(`of [${ids.join(', ')}] for a key of kind ${kind} is ${expected ?? 'none'}`, () =>
      assert.equal(chooseIssuer(ALL, ids, kind, NOW)?.id, expected))

  const narrow = { ...issuer('narrow', 'SHA256withECDSA'), constraints: [constraintsOn({ dns: ['corp.test'] })] }
  const all = [narrow, ...ALL]
  const name = (value: string) => [{ type: 'dns' as const, value }]

  test('of several is one whose name constraints admit the names, where there is one', () => {
    assert.equal(chooseIssuer(all, ['narrow', 'ec'], 'ec', NOW, name('www.lab.test'))?.id, 'ec')
    assert.equal(chooseIssuer(all, ['narrow', 'ec'], 'ec', NOW, name('www.corp.test'))?.id, 'narrow')
    // Another issuer may be for other profiles only; the signer refuses the name.
    assert.equal(chooseIssuer(all, [], 'ec', NOW, name('www.lab.test'))?.id, 'narrow')
  })

  test('has constraints that are known before an order, unless another CA is asked first', () => {
    const of = (backends: string[], issuerIds: string[] = []) =>
      constraintsOfProfiles(all, [{ issuerIds, backends }], NOW)
    assert.deepEqual(of(['internal']), [narrow.constraints])
    assert.deepEqual(of(['internal', 'external'], ['ec', 'narrow', 'rsa-old']), [[], narrow.constraints])
    assert.deepEqual(of(['external', 'internal']), [])
  })
})
