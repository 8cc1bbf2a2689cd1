/** Reads the certificates of an issuer that exists, and puts them in order. No key is read here. */

import type { X509Certificate } from 'node:crypto'
import { certificatesIn, readCertificates } from '../shared/lib/certificate-file.ts'
import type { Answers } from './answers.ts'
import { run } from './command.ts'
import type { GivenCertificates } from './facts.ts'

const MOST = 10

/** @returns undefined where none is to be read. @throws Error that says which certificate is missing */
export async function readGivenCertificates(answers: Answers): Promise<GivenCertificates | undefined> {
  const { issuer, import_from, import_path, issuer_certificate, issuer_root } = answers
  const roots = issuer_root === '' ? [] : readCertificates(issuer_root)
  if (issuer === 'request' && issuer_certificate !== '') return inOrder(readCertificates(issuer_certificate), roots)
  if (issuer !== 'import' || import_path === '') return undefined
  if (import_from === 'pem') return inOrder(readCertificates(import_path), roots)
  if (import_from === 'step-ca')
    return inOrder(
      readCertificates(`${import_path}/certs/intermediate_ca.crt`),
      readCertificates(`${import_path}/certs/root_ca.crt`),
    )
  return fromPkcs12(answers, roots)
}

async function fromPkcs12(
  { import_path, import_passphrase }: Answers,
  roots: X509Certificate[],
): Promise<GivenCertificates> {
  const env = { CHANCERY_IMPORT_PASSPHRASE: import_passphrase }
  const list = (isLegacy: boolean, which: '-clcerts' | '-cacerts') => {
    const legacy = isLegacy ? ['-legacy'] : []
    const words = ['openssl', 'pkcs12', ...legacy, '-in', import_path, '-passin', 'env:CHANCERY_IMPORT_PASSPHRASE']
    return run({ words: [...words, '-nokeys', which], as: 'root', env })
  }
  // Files of older programs are encrypted by what OpenSSL 3 reads only when it is told to.
  const isLegacy = (await list(false, '-clcerts')).code !== 0
  const own = await list(isLegacy, '-clcerts')
  if (own.code !== 0) throw new Error(`${import_path} cannot be opened: wrong passphrase, or no PKCS #12 file`)
  const issuer = certificatesIn(own.stdout, import_path)
  if (issuer.length === 0) throw new Error(`${import_path}: holds no certificate beside a key`)
  const above = certificatesIn((await list(isLegacy, '-cacerts')).stdout, import_path)
  return { ...inOrder([...issuer, ...above], roots), isLegacy }
}

/** From the issuer, which comes first, up to its root. */
function inOrder(certificates: readonly X509Certificate[], roots: readonly X509Certificate[]): GivenCertificates {
  const [issuer] = certificates
  if (!issuer?.ca) throw new Error(`${nameOf(issuer)} is not the certificate of a CA`)
  const others = [...certificates, ...roots]
  const chain: X509Certificate[] = []
  for (let last = issuer; !isRoot(last); ) {
    const above = others.find((one) => one !== last && last.checkIssued(one) && last.verify(one.publicKey))
    if (!above || chain.length >= MOST)
      throw new Error(`the certificate that has signed ${nameOf(last)} is missing; name its file as issuer_root`)
    chain.push(above)
    last = above
  }
  return { issuer: issuer.toString(), chain: chain.map(String) }
}

const isRoot = (one: X509Certificate) => one.checkIssued(one) && one.verify(one.publicKey)
const nameOf = (one: X509Certificate | undefined) => one?.subject.replaceAll('\n', ', ') ?? 'it'
