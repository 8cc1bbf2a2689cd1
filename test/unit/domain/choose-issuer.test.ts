/** Which issuer signs: profile, kind of key, validity. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { chooseIssuer } from '../../../src/domain/certificate-profile.ts'
import type { SignatureAlgorithm } from '../../../src/shared/pki/algorithms.ts'

const NOW = new Date('2026-06-01T00:00:00Z')
const issuer = (id: string, signatureAlgorithm: SignatureAlgorithm, from = '2026-01-01', to = '2027-01-01') => ({
  id,
  signatureAlgorithm,
  notBefore: new Date(from),
  notAfter: new Date(to),
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
  for (const [ids, kind, expected] of ROWS) {
    test(`of [${ids.join(', ')}] for a key of kind ${kind} is ${expected ?? 'none'}`, () =>
      assert.equal(chooseIssuer(ALL, ids, kind, NOW)?.id, expected))
  }
})
