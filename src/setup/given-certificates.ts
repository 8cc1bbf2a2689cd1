/** Reads the certificates of an issuer that exists, puts them in order, and compares them with its key and the answers. */

import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { certificatesIn, readBytes, readCertificates } from '../shared/lib/certificate-file.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { checkIssuing } from '../shared/pki/certification-path.ts'
import type { Answers } from './answers.ts'
import { mustRun, run } from './command.ts'
import { type Facts, type GivenCertificates, keyOf, PLACES } from './facts.ts'
import { outsideIssuer } from './issuer-limits.ts'

const MOST = 10
const PASSPHRASE = 'env:CHANCERY_IMPORT_PASSPHRASE'
/** As the signer wants it. */
const MIN_RSA_BITS = 2048

/**
 * Before anything is written: a file that is there is kept, so a wrong one would stay.
 * @returns undefined where none is to be read
 * @throws Error that says which certificate is missing, or why the issuer cannot issue here
 */
export async function readGivenCertificates(answers: Answers, facts: Facts): Promise<GivenCertificates | undefined> {
  const given = await readAll(answers)
  if (!given) return undefined
  const key =
    answers.issuer === 'request' ? keyOf(facts.files[PLACES.request] ?? '') : await importedKey(answers, facts, given)
  requireUsable(given, answers, key)
  return given
}

function requireUsable({ issuer, chain }: GivenCertificates, answers: Answers, key: KeyObject): void {
  const own = new X509Certificate(issuer)
  const [name, bits = MIN_RSA_BITS] = [nameOf(own), own.publicKey.asymmetricKeyDetails?.modulusLength]
  const path = [own, ...chain.map((pem) => new X509Certificate(pem))].map(({ raw }) => parseCertificate(raw))
  const { keyUsages, subjectKeyIdentifier } = path[0]!.tbs
  const [unfit] = checkIssuing(path, 1)
  const late = path.find(({ tbs }) => tbs.notAfter < new Date() || tbs.notBefore > new Date())?.tbs
  const outside = outsideIssuer(answers, { files: { [PLACES.issuer]: [issuer, ...chain].join('') } })
  const refuse = (why: string) => {
    throw new Error(`${name} cannot issue here: ${why}`)
  }
  if (!own.publicKey.equals(key))
    refuse(
      `it is for another key than ${answers.issuer === 'request' ? `that of ${PLACES.request}` : 'the one that is named'}`,
    )
  if (bits < MIN_RSA_BITS) refuse(`its RSA key has ${bits} bits, and ${MIN_RSA_BITS} are the fewest`)
  if (unfit !== undefined) refuse(unfit)
  if (!subjectKeyIdentifier) refuse('it has no subjectKeyIdentifier')
  if (answers.crl_url !== 'none' && keyUsages.length > 0 && !keyUsages.includes('crl_sign'))
    refuse(
      'its key usage does not allow signing lists of revoked certificates (cRLSign); without one, answer crl_url: none',
    )
  if (late)
    refuse(`a certificate of its chain is valid from ${late.notBefore.toISOString()} to ${late.notAfter.toISOString()}`)
  if (outside !== undefined) refuse(`domains ${outside}`)
}

/** The one that is there already, which would be kept, or the one to be taken. */
async function importedKey(answers: Answers, { files }: Facts, { isLegacy }: GivenCertificates): Promise<KeyObject> {
  const { [PLACES.issuerKey]: there, [PLACES.issuerPassphrase]: passphrase } = files
  const { import_from: form, import_path, import_key, import_passphrase } = answers
  if (there !== undefined)
    return publicKey(
      there,
      passphrase?.trimEnd() ?? import_passphrase,
      `${PLACES.issuerKey} (of an earlier run; move it away)`,
    )
  if (form !== 'pkcs12') {
    const file = form === 'pem' ? import_key : stepKey(import_path)
    return publicKey(readBytes(file).toString('latin1'), import_passphrase, file)
  }
  const words = ['openssl', 'pkcs12', ...(isLegacy ? ['-legacy'] : []), '-in', import_path, '-passin', PASSPHRASE]
  const env = { CHANCERY_IMPORT_PASSPHRASE: import_passphrase }
  return publicKey(await mustRun({ words: [...words, '-nocerts', '-nodes'], as: 'root', env }), '', import_path)
}

export const stepKey = (folder: string) => `${folder}/secrets/intermediate_ca_key`

function publicKey(pem: string, passphrase: string, file: string): KeyObject {
  try {
    return createPublicKey(createPrivateKey({ key: pem, passphrase }))
  } catch (cause) {
    throw new Error(`${file}: no private key could be read from it: wrong passphrase?`, { cause })
  }
}

async function readAll(answers: Answers): Promise<GivenCertificates | undefined> {
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
    const words = ['openssl', 'pkcs12', ...legacy, '-in', import_path, '-passin', PASSPHRASE]
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
