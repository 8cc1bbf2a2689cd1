/** Checks of an issued chain (RFC 8555 §7.4.2): a server that hands out anything but the certificate asked for fails the run. */

import { X509Certificate } from 'node:crypto'
import { readAlgorithmIdentifier, verifySignature } from '../../src/shared/pki/algorithms.ts'
import { readSingle, TAG } from '../../src/shared/pki/der.ts'
import { readTime } from '../../src/shared/pki/time.ts'
import { Failure } from '../client/http.ts'

/** One download, to be checked when the clock has stopped. */
export interface Download {
  name: string
  /** The answer's body as it came. */
  chainPem: string
}

/** @throws Failure `check-…` naming the first thing that is wrong */
export type ChainChecker = (download: Download) => void

const END = '-----END CERTIFICATE-----'

/**
 * @param spki DER SubjectPublicKeyInfo of the CSR's key.
 * @param root The last certificate must be signed by it (or be it); undefined accepts any chain that holds together.
 */
export function chainChecker(spki: Buffer, root: X509Certificate | undefined): ChainChecker {
  const serials = new Set<string>()
  /** Issuers repeat: each distinct tail of a chain is parsed and checked once. */
  const issuers = new Map<string, X509Certificate>()

  return ({ name, chainPem }) => {
    const leafEnd = chainPem.indexOf(END) + END.length
    const [leaf, tail] = [parse(chainPem.slice(0, leafEnd)), chainPem.slice(leafEnd)]
    const issuer = issuers.get(tail) ?? checkIssuers(tail, root)
    issuers.set(tail, issuer)
    checkLeaf(leaf, issuer, name, spki)
    if (serials.has(leaf.serialNumber)) throw new Failure('check-serial', `${leaf.serialNumber} was issued twice`)
    serials.add(leaf.serialNumber)
  }
}

function checkLeaf(leaf: X509Certificate, issuer: X509Certificate, name: string, spki: Buffer): void {
  if (leaf.subjectAltName !== `DNS:${name}`) {
    throw new Failure('check-name', `asked for DNS:${name}, got ${leaf.subjectAltName ?? 'no names'}`)
  }
  const key = leaf.publicKey.export({ format: 'der', type: 'spki' })
  if (!key.equals(spki)) throw new Failure('check-key', `the certificate for ${name} has another key than the CSR`)
  if (leaf.ca) throw new Failure('check-ca', `the certificate for ${name} is a CA certificate`)

  const now = Date.now()
  if (now < Date.parse(leaf.validFrom) || now > Date.parse(leaf.validTo)) {
    throw new Failure('check-validity', `valid from ${leaf.validFrom} to ${leaf.validTo}`)
  }
  checkSignedBy(leaf, issuer)
}

/** @returns the certificate that must have signed the leaf. */
function checkIssuers(tail: string, root: X509Certificate | undefined): X509Certificate {
  const chain = tail
    .split(END)
    .slice(0, -1)
    .map((pem) => parse(pem + END))
  const first = chain[0]
  const last = chain.at(-1)
  if (!first || !last) throw new Failure('check-chain', 'the leaf came without its issuer')

  for (const [index, certificate] of chain.entries()) {
    if (!certificate.ca) throw new Failure('check-chain', `${certificate.subject} issues but is no CA certificate`)
    const next = chain[index + 1]
    if (next) checkSignedBy(certificate, next)
  }
  if (root && last.fingerprint256 !== root.fingerprint256) checkSignedBy(last, root)
  return first
}

function checkSignedBy(certificate: X509Certificate, issuer: X509Certificate): void {
  if (!certificate.checkIssued(issuer) || !certificate.verify(issuer.publicKey)) {
    throw new Failure(
      'check-chain',
      `${certificate.subject || certificate.serialNumber} is not signed by ${issuer.subject}`,
    )
  }
}

function parse(pem: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw new Failure('check-chain', `not a PEM certificate: ${(error as Error).message}`)
  }
}

/**
 * Checks of a CRL (RFC 5280 §5.1): signed by the issuer of the certificates that name it, and not out of date.
 *
 * @param chainPem a certificate and its issuer
 * @returns a function that checks each distinct list once, and throws Failure `check-crl`
 */
export function crlChecker(chainPem: string): (der: Buffer) => void {
  const issuer = new X509Certificate(chainPem.split(END)[1] + END)
  let good = Buffer.alloc(0)
  return (der) => {
    if (der.equals(good)) return
    try {
      checkCrl(der, issuer)
    } catch (error) {
      if (error instanceof Failure) throw error
      throw new Failure('check-crl', `not a CRL: ${(error as Error).message}`)
    }
    good = Buffer.from(der)
  }
}

function checkCrl(der: Buffer, issuer: X509Certificate): void {
  const reader = readSingle(der, TAG.sequence, 'CertificateList')
  const tbs = reader.any()
  const { algorithm } = readAlgorithmIdentifier(reader)
  const signature = reader.bitStringOctets()
  reader.finish('CertificateList')
  if (!verifySignature(algorithm, tbs, issuer.publicKey, signature))
    throw new Failure('check-crl', `the CRL is not signed by ${issuer.subject}`)
  const fields = readSingle(tbs, TAG.sequence, 'TBSCertList')
  // Version, signature, issuer, thisUpdate; nextUpdate follows.
  for (let skipped = 0; skipped < 4; skipped++) fields.any()
  const nextUpdate = readTime(fields).at
  if (!(nextUpdate.getTime() > Date.now()))
    throw new Failure('check-crl', `the CRL was to be followed at ${nextUpdate}`)
}
