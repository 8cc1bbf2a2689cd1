/** Reads the certificates of an issuer that exists, puts them in order, and compares them with its key and the answers. */

import { createPrivateKey, createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { PATHS } from '../installation/places.ts'
import { certificatesIn, readBytes, readCertificates } from '../shared/lib/files.ts'
import { parseCertificate } from '../shared/pki/certificate.ts'
import { checkIssuing } from '../shared/pki/certification-path.ts'
import { type Facts, type GivenCertificates, keyOf, outsideIssuer } from './facts.ts'
import { mustRun, run } from './host.ts'
import type { Answers } from './questions.ts'

const MOST = 10
export const IMPORT_PASSPHRASE = 'CHANCERY_IMPORT_PASSPHRASE'
/** The signer takes no shorter key. */
const MIN_RSA_BITS = 2048

/**
 * Setup reads them before it writes anything: a file that is there is kept, so a wrong one would stay.
 * @returns undefined where none is to be read
 * @throws Error that says which certificate is missing, or why the issuer cannot issue here
 */
export async function readGivenCertificates(answers: Answers, facts: Facts): Promise<GivenCertificates | undefined> {
  const given = await readAll(answers)
  if (!given) return undefined
  const isRequest = answers.issuer === 'request'
  const key = isRequest ? keyOf(facts.files[PATHS.request] ?? '') : await importedKey(answers, facts, given)
  const why = unusable(given, answers, key)
  if (why) throw new Error(`${nameOf(new X509Certificate(given.issuer))} cannot issue here: ${why}`)
  return given
}

function unusable({ issuer, chain }: GivenCertificates, answers: Answers, key: KeyObject) {
  const { publicKey } = new X509Certificate(issuer)
  const path = [issuer, ...chain].map((pem) => parseCertificate(new X509Certificate(pem).raw))
  const { keyUsages, subjectKeyIdentifier } = path[0]!.tbs
  const [bits = MIN_RSA_BITS, now] = [publicKey.asymmetricKeyDetails?.modulusLength, new Date()]
  const outside = outsideIssuer(answers.domains, [issuer, ...chain].join(''))
  const mayNotSignLists = keyUsages.length > 0 && !keyUsages.includes('crl_sign')
  return [
    !publicKey.equals(key) &&
      `it is for another key than that of ${answers.issuer === 'request' ? PATHS.request : 'the import'}`,
    bits < MIN_RSA_BITS && `its RSA key has ${bits} bits, and ${MIN_RSA_BITS} are the fewest`,
    ...checkIssuing(path, 1),
    !subjectKeyIdentifier && 'it has no subjectKeyIdentifier',
    answers.crl_url !== 'none' &&
      mayNotSignLists &&
      'its key usage is without cRLSign; to make no list answer crl_url: none',
    path.some(({ tbs }) => tbs.notAfter < now || tbs.notBefore > now) &&
      'a certificate of its chain has ended, or is not valid yet',
    outside !== undefined && `domains ${outside}`,
  ].find((reason) => typeof reason === 'string')
}

/** The public key of the key file that is there and is kept, else of the key to import. */
async function importedKey(answers: Answers, { files }: Facts, { isLegacy }: GivenCertificates): Promise<KeyObject> {
  const { [PATHS.issuerKey]: there, [PATHS.issuerPassphrase]: kept } = files
  const { import_from: form, import_path, import_key, import_passphrase } = answers
  const file = form === 'pem' ? import_key : form === 'step-ca' ? stepKey(import_path) : import_path
  const env = { [IMPORT_PASSPHRASE]: import_passphrase }
  const take = () =>
    form === 'pkcs12'
      ? mustRun({ words: [...pkcs12Words(file, isLegacy), '-nocerts', '-nodes'], as: 'root', env })
      : readBytes(file).toString('latin1')
  const key = there ?? (await take())
  try {
    return createPublicKey(createPrivateKey({ key, passphrase: kept?.trimEnd() ?? import_passphrase }))
  } catch (cause) {
    const place = there === undefined ? file : `${PATHS.issuerKey} (of an earlier run; move it away)`
    throw new Error(`${place}: no private key could be read from it: wrong passphrase?`, { cause })
  }
}

/** The passphrase of the file is in the variable. */
export const pkcs12Words = (file: string, isLegacy = false): string[] => {
  const legacy = isLegacy ? ['-legacy'] : []
  return ['openssl', 'pkcs12', ...legacy, '-in', file, '-passin', `env:${IMPORT_PASSPHRASE}`]
}

export const stepKey = (folder: string) => `${folder}/secrets/intermediate_ca_key`

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
  const env = { [IMPORT_PASSPHRASE]: import_passphrase }
  const list = (isLegacy: boolean, which: '-clcerts' | '-cacerts') =>
    run({ words: [...pkcs12Words(import_path, isLegacy), '-nokeys', which], as: 'root', env })
  // OpenSSL 3 reads the encryption of older programs only with an option.
  const isLegacy = (await list(false, '-clcerts')).code !== 0
  const own = await list(isLegacy, '-clcerts')
  if (own.code !== 0) throw new Error(`${import_path} cannot be opened: wrong passphrase, or no PKCS #12 file`)
  const issuer = certificatesIn(own.stdout, import_path)
  if (issuer.length === 0) throw new Error(`${import_path}: holds no certificate beside a key`)
  const above = certificatesIn((await list(isLegacy, '-cacerts')).stdout, import_path)
  return { ...inOrder([...issuer, ...above], roots), isLegacy }
}

/** Orders the certificates from the issuer, which comes first, up to its root. */
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
