/**
 * The tls-alpn-01 challenge (RFC 8737 §3; RFC 8738 §6 for IP identifiers).
 *
 * One TLS handshake offers only `acme-tls/1`, and the server shows a special certificate. The
 * connection then closes at once. Its content is checked, and that it is self-signed; the RFCs do not restrict validity
 * period, subject and key usage, so they are ignored. Errors contain the identifier, the port and our own words.
 */

import { hash, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import { parseIpAddress } from '../../src/shared/lib/ip-address.ts'
import { type Certificate, parseCertificate, verifyCertificateSignature } from '../../src/shared/pki/certificate.ts'
import { DerError, DerReader } from '../../src/shared/pki/der.ts'
import { EXTENSION } from '../../src/shared/pki/oids.ts'
import type { Identifier } from '../../src/shared/protocol/identifier.ts'
import { createAddressPolicy } from '../address-policy.ts'
import { startDeadline } from '../deadline.ts'
import { createDnsClient } from '../dns/dns-client.ts'
import type { EvidenceStep, TlsAlpn01Job, ValidationVerdict } from '../job.ts'
import { type ReachContext, reach } from '../reach.ts'

/** RFC 8737 §6.2. */
const ACME_TLS_1 = 'acme-tls/1'

type Failure = Extract<ValidationVerdict, { ok: false }>

/**
 * Returns a verdict for any input from DNS and the TLS server, within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
export async function validateTlsAlpn01(job: TlsAlpn01Job): Promise<ValidationVerdict> {
  const context: ReachContext = {
    dns: createDnsClient(job.dns),
    policy: createAddressPolicy(job.blockedNetworks),
    deadline: startDeadline(job.timeoutMs),
    evidence: [],
  }
  const failure = await findFailure(job, context)
  const { evidence } = context
  evidence.push({ step: 'finished', durationMs: Math.round(context.deadline.elapsedMs()) })
  return failure ? { ok: false, ...failure, evidence } : { ok: true, evidence }
}

async function findFailure(
  job: TlsAlpn01Job,
  context: ReachContext,
): Promise<Omit<Failure, 'ok' | 'evidence'> | undefined> {
  const { identifier, port } = job
  const fail = (problem: Failure['problem'], what: string, retryable: boolean) => ({
    problem,
    detail: `${identifier.value} port ${port}: ${what}`,
    retryable,
  })
  const isAddress = isIP(identifier.value) !== 0
  if (isAddress !== (identifier.type === 'ip')) return fail('dns', 'not a host name that can be looked up', false)
  if (identifier.value.startsWith('*.')) {
    // RFC 8737 §3: one host cannot prove control of all names of a domain. Such a challenge is not offered.
    return fail('unauthorized', 'tls-alpn-01 does not prove control of a wildcard name', false)
  }

  const tls = { serverName: serverNameOf(identifier), protocols: [ACME_TLS_1] }
  const socket = await reach({ host: identifier.value, port, tls }, context)
  if ('kind' in socket) return fail(socket.problem, socket.reason, socket.retryable)

  const shown = readHandshake(socket)
  // RFC 8737 §4: no data follows the handshake.
  socket.destroy()
  context.evidence.push(handshakeStep(shown))
  if (shown.protocol !== ACME_TLS_1)
    return fail('incorrectResponse', 'the server did not choose acme-tls/1 (ALPN)', false)
  if (!shown.certificate) return fail('incorrectResponse', 'the server showed no certificate', false)

  const expected = { identifier, digest: Buffer.from(job.keyAuthorizationDigest, 'base64url') }
  const reason = checkAcmeCertificate(shown.certificate, expected)
  return reason === undefined ? undefined : fail('incorrectResponse', reason, false)
}

interface Handshake {
  version: string | undefined
  /** The protocol that ALPN chose. */
  protocol: string | undefined
  /** DER. */
  certificate: Buffer | undefined
}

function readHandshake(socket: unknown): Handshake {
  if (!(socket instanceof TLSSocket)) throw new Error('a destination with TLS is reached over TLS')
  return {
    version: socket.getProtocol() ?? undefined,
    protocol: socket.alpnProtocol || undefined,
    certificate: socket.getPeerX509Certificate()?.raw,
  }
}

function handshakeStep({ version, protocol, certificate }: Handshake): EvidenceStep {
  return {
    step: 'handshake',
    version,
    protocol: protocol ?? null,
    ...(certificate && { certificateSha256: hash('sha256', certificate, 'hex'), certificateBytes: certificate.length }),
  }
}

/** RFC 8738 §6: the server name of an address is its reverse mapping (RFC 1034 §5.2.1, RFC 3596 §2.5). */
export function serverNameOf({ type, value }: TlsAlpn01Job['identifier']): string {
  if (type === 'dns') return value
  const octets = parseIpAddress(value)
  if (!octets) throw new RangeError(`not an IP address: ${value}`)
  if (octets.length === 4) return `${[...octets].reverse().join('.')}.in-addr.arpa`
  return `${[...octets.toString('hex')].reverse().join('.')}.ip6.arpa`
}

interface ExpectedCertificate {
  /** Canonical, as in orders. */
  identifier: Identifier
  /** SHA-256 of the key authorization. */
  digest: Buffer
}

/** Returns the error without quoting the certificate, or undefined if it is right. Accepts any bytes. */
export function checkAcmeCertificate(der: Buffer, { identifier, digest }: ExpectedCertificate): string | undefined {
  const certificate = readCertificate(der)
  if (!certificate)
    return 'the certificate is malformed: not DER, an extension stands twice, or a list in it is too long'
  const { subjectAltNames, extensions } = certificate.tbs

  const isNamed = subjectAltNames.some((name) => isName(name, identifier))
  if (subjectAltNames.length === 0) return 'the certificate has no subject alternative name'
  if (!isNamed) return `the certificate is not for ${identifier.value}`
  if (subjectAltNames.length > 1) return `the certificate has other names beside ${identifier.value}`

  const acmeIdentifier = extensions.find(({ oid }) => oid === EXTENSION.acmeIdentifier)
  if (!acmeIdentifier) return 'the certificate has no acmeIdentifier extension'
  if (!acmeIdentifier.critical) return 'the acmeIdentifier extension is not critical'
  const found = readAuthorization(acmeIdentifier.value)
  if (!found) return 'the acmeIdentifier extension does not hold a SHA-256 digest'
  if (!timingSafeEqual(found, digest)) return 'the acmeIdentifier extension holds another digest'

  if (!certificate.signatureAlgorithm) return 'the certificate is signed with an algorithm that is not known here'
  return isSelfSigned(certificate) ? undefined : 'the certificate is not self-signed'
}

function readCertificate(der: Buffer): Certificate | undefined {
  try {
    return parseCertificate(der)
  } catch (error) {
    // The message of `error` would quote the certificate.
    if (error instanceof DerError) return undefined
    throw error
  }
}

/** RFC 8737 §3: dNSName in A-labels, ignoring case. RFC 8738 §6: iPAddress; both sides use the canonical text. */
function isName({ kind, value }: Certificate['tbs']['subjectAltNames'][number], identifier: Identifier): boolean {
  if (identifier.type === 'ip') return kind === 'iPAddress' && value === identifier.value
  return kind === 'dNSName' && value.toLowerCase() === identifier.value
}

/** `Authorization ::= OCTET STRING (SIZE (32))`. */
function readAuthorization(value: Buffer): Buffer | undefined {
  try {
    const reader = new DerReader(value)
    const digest = reader.octetString()
    reader.finish('Authorization')
    return digest.length === 32 ? digest : undefined
  } catch (error) {
    if (error instanceof DerError) return undefined
    throw error
  }
}

/** RFC 5280 §3.2: issuer and subject are equal, and the certificate's own key signed it. */
function isSelfSigned(certificate: Certificate): boolean {
  const { issuerDer, subjectDer, spki } = certificate.tbs
  return issuerDer.equals(subjectDer) && verifyCertificateSignature(certificate, spki.der)
}
