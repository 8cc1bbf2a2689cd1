import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { describe, test } from 'node:test'
import { chainChecker } from '../../../bench/scenario/checks.ts'
import { encodePem } from '../../../src/shared/pki/pem.ts'
import {
  type Authority,
  DAY_MS,
  leafTbs,
  makeAuthority,
  makeKeyPair,
  signedBy,
  spkiOf,
} from '../../signer/authority.ts'
import { type RawTbsChanges, rawExtension, rawTbs } from '../../signer/raw-tbs.ts'

const root = makeAuthority('P-256', { name: 'Root' })
const intermediate = makeAuthority('P-256', { name: 'Intermediate', by: root })
/** By a key that only shares the name of the issuer. */
const other = makeAuthority('P-256', { name: 'Intermediate' })
const [rootPem, intermediatePem] = [root.certificatePem, intermediate.certificatePem]
const [spki, anotherKey] = [spkiOf(makeKeyPair('P-256').publicKey), spkiOf(makeKeyPair('P-256').publicKey)]

const pemOf = (by: Authority, tbs: Buffer) => encodePem('CERTIFICATE', signedBy(by, tbs))
const days = (count: number) => new Date(Math.floor(Date.now() / 1000) * 1000 + count * DAY_MS)

/** A leaf for these names, which is valid for three days. */
function leaf(by = intermediate, dnsNames = ['a.test'], { from = -1, key = spki } = {}): string {
  return pemOf(by, leafTbs(by, { dnsNames, spki: key, notBefore: days(from), notAfter: days(from + 3) }))
}
const changed = (extensions: RawTbsChanges['extensions'] & object) =>
  pemOf(intermediate, rawTbs(intermediate, { spki, extensions }))

const check = (chainPem: string, rootCertificate?: string) =>
  chainChecker(
    spki,
    rootCertificate === undefined ? undefined : new X509Certificate(rootCertificate),
  )({ name: 'a.test', chainPem })

describe('an issued chain', () => {
  test('with the name, the key and its issuers passes, with the root and without', () => {
    const pem = leaf() + intermediatePem
    check(pem)
    check(pem, rootPem)
    check(pem + rootPem, rootPem)
  })

  const san = rawExtension('2.5.29.17', true, Buffer.from('30088206612e74657374', 'hex'))
  const isCa = rawExtension('2.5.29.19', true, Buffer.from('30030101ff', 'hex'))
  const WRONG: [what: string, kind: string, leaf: string, issuers?: string][] = [
    ['for another name', 'check-name', leaf(intermediate, ['b.test'])],
    ['for a name too many', 'check-name', leaf(intermediate, ['a.test', 'b.test'])],
    ['for no name', 'check-name', changed({ subjectAltName: undefined })],
    ['for another key', 'check-key', leaf(intermediate, ['a.test'], { key: anotherKey })],
    ['that is a CA', 'check-ca', changed({ subjectAltName: san, basicConstraints: isCa, keyUsage: undefined })],
    ['that begins tomorrow', 'check-validity', leaf(intermediate, ['a.test'], { from: 1 })],
    ['that has expired', 'check-validity', leaf(intermediate, ['a.test'], { from: -10 })],
    ['by another key of the same name', 'check-chain', leaf(other)],
    ['without issuers', 'check-chain', leaf(), ''],
    ['with issuers out of order', 'check-chain', leaf(), rootPem + intermediatePem],
    ['that is no PEM', 'check-chain', '{"status":"valid"}', ''],
  ]
  for (const [what, kind, pem, issuers = intermediatePem] of WRONG)
    test(`${what} fails`, () => assert.throws(() => check(pem + issuers), { kind }))

  test('of another root fails', () =>
    assert.throws(() => check(leaf() + intermediatePem, other.certificatePem), { kind: 'check-chain' }))

  test('handed out twice fails the second time', () => {
    const check = chainChecker(spki, undefined)
    const download = { name: 'a.test', chainPem: leaf() + intermediatePem }
    check(download)
    assert.throws(() => check(download), { kind: 'check-serial' })
  })
})
