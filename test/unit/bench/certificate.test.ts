import 'reflect-metadata'
import assert from 'node:assert/strict'
import { webcrypto, X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import * as x509 from '@peculiar/x509'
import { chainChecker } from '../../../bench/scenario/checks.ts'

type Pair = webcrypto.CryptoKeyPair
interface Issuer {
  name: string
  keys: Pair
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY_MS = 86_400_000
let serial = 0

const newKeys = () => webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<Pair>

async function certificate(
  issuer: Issuer,
  subject: Issuer,
  extensions: x509.Extension[],
  startsInDays = -1,
): Promise<string> {
  const made = await x509.X509CertificateGenerator.create({
    serialNumber: (++serial).toString(16).padStart(4, '0'),
    subject: subject.name,
    issuer: issuer.name,
    notBefore: new Date(Date.now() + startsInDays * DAY_MS),
    notAfter: new Date(Date.now() + (startsInDays + 3) * DAY_MS),
    publicKey: subject.keys.publicKey,
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: ALGORITHM,
    extensions,
  })
  return `${made.toString('pem')}\n`
}

const CA = [new x509.BasicConstraintsExtension(true, undefined, true)]
const names = (...values: string[]): x509.Extension[] => [
  new x509.SubjectAlternativeNameExtension(values.map((value) => ({ type: 'dns' as const, value }))),
]

describe('an issued chain', () => {
  let root: Issuer
  let intermediate: Issuer
  let other: Issuer
  let subject: Issuer
  let rootPem: string
  let intermediatePem: string
  let spki: Buffer

  before(async () => {
    root = { name: 'CN=Root', keys: await newKeys() }
    intermediate = { name: 'CN=Intermediate', keys: await newKeys() }
    other = { name: 'CN=Intermediate', keys: await newKeys() }
    subject = { name: '', keys: await newKeys() }
    rootPem = await certificate(root, root, CA)
    intermediatePem = await certificate(root, intermediate, CA)
    spki = await spkiOf(subject)
  })

  const check = (chainPem: string, rootCertificate?: string) =>
    chainChecker(
      spki,
      rootCertificate === undefined ? undefined : new X509Certificate(rootCertificate),
    )({ name: 'a.test', chainPem })
  const leaf = (issuer = intermediate, san = names('a.test'), days = -1) => certificate(issuer, subject, san, days)

  test('with the name, the key and its issuers passes, with the root and without', async () => {
    const pem = (await leaf()) + intermediatePem
    check(pem)
    check(pem, rootPem)
    check(pem + rootPem, rootPem)
  })

  test('that is not the one that was asked for fails', async () => {
    const another = { name: '', keys: await newKeys() }
    const wrong: [kind: string, leaf: string, issuers?: string][] = [
      ['check-name', await leaf(intermediate, names('b.test'))],
      ['check-name', await leaf(intermediate, names('a.test', 'b.test'))],
      ['check-name', await leaf(intermediate, [])],
      ['check-key', await certificate(intermediate, another, names('a.test'))],
      ['check-ca', await leaf(intermediate, [...names('a.test'), ...CA])],
      ['check-validity', await leaf(intermediate, names('a.test'), 1)],
      ['check-validity', await leaf(intermediate, names('a.test'), -10)],
      // By a key that only shares the name of the issuer; without issuers; with issuers out of order; no PEM.
      ['check-chain', await leaf(other)],
      ['check-chain', await leaf(), ''],
      ['check-chain', await leaf(), rootPem + intermediatePem],
      ['check-chain', '{"status":"valid"}', ''],
    ]
    for (const [kind, pem, issuers = intermediatePem] of wrong)
      assert.throws(() => check(pem + issuers), { kind }, `${kind}: ${pem}`)
    const stranger = await certificate(other, other, CA)
    const good = (await leaf()) + intermediatePem
    assert.throws(() => check(good, stranger), { kind: 'check-chain' })
  })

  test('handed out twice fails the second time', async () => {
    const check = chainChecker(spki, undefined)
    const download = { name: 'a.test', chainPem: (await leaf()) + intermediatePem }
    check(download)
    assert.throws(() => check(download), { kind: 'check-serial' })
  })
})

async function spkiOf({ keys }: Issuer): Promise<Buffer> {
  return Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey))
}
