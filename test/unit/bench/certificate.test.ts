import 'reflect-metadata'
import assert from 'node:assert/strict'
import { webcrypto, X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import * as x509 from '@peculiar/x509'
import { chainChecker } from '../../../bench/check/certificate.ts'

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
    )({
      name: 'a.test',
      chainPem,
    })
  const leaf = (issuer = intermediate, san = names('a.test'), days = -1) => certificate(issuer, subject, san, days)

  test('with the name, the key and its issuers passes, with the root and without', async () => {
    const pem = (await leaf()) + intermediatePem
    check(pem)
    check(pem, rootPem)
    check(pem + rootPem, rootPem)
  })

  test('for another name or one name more fails', async () => {
    for (const san of [names('b.test'), names('a.test', 'b.test'), []]) {
      const pem = (await leaf(intermediate, san)) + intermediatePem
      assert.throws(() => check(pem), { kind: 'check-name' })
    }
  })

  test('for another key than the CSR had fails', async () => {
    const pem =
      (await certificate(intermediate, { name: '', keys: await newKeys() }, names('a.test'))) + intermediatePem
    assert.throws(() => check(pem), { kind: 'check-key' })
  })

  test('signed by a key that only shares the name of the issuer fails', async () => {
    const pem = (await leaf(other)) + intermediatePem
    assert.throws(() => check(pem), { kind: 'check-chain' })
  })

  test('without its issuer, or with the issuers out of order, fails', async () => {
    const alone = await leaf()
    assert.throws(() => check(alone), { kind: 'check-chain' })
    assert.throws(() => check(alone + rootPem + intermediatePem), { kind: 'check-chain' })
  })

  test('that does not lead to the given root fails', async () => {
    const stranger = await certificate(other, other, CA)
    const pem = (await leaf()) + intermediatePem
    assert.throws(() => check(pem, stranger), { kind: 'check-chain' })
  })

  test('that makes the leaf a CA fails', async () => {
    const pem = (await leaf(intermediate, [...names('a.test'), ...CA])) + intermediatePem
    assert.throws(() => check(pem), { kind: 'check-ca' })
  })

  test('not valid yet, or no longer, fails', async () => {
    for (const days of [1, -10]) {
      const pem = (await leaf(intermediate, names('a.test'), days)) + intermediatePem
      assert.throws(() => check(pem), { kind: 'check-validity' })
    }
  })

  test('handed out twice fails the second time', async () => {
    const check = chainChecker(spki, undefined)
    const download = { name: 'a.test', chainPem: (await leaf()) + intermediatePem }
    check(download)
    assert.throws(() => check(download), { kind: 'check-serial' })
  })

  test('that is no PEM fails', () => assert.throws(() => check('{"status":"valid"}'), { kind: 'check-chain' }))
})

async function spkiOf({ keys }: Issuer): Promise<Buffer> {
  return Buffer.from(await webcrypto.subtle.exportKey('spki', keys.publicKey))
}
