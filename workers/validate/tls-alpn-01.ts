/**
 * The tls-alpn-01 challenge (RFC 8737 §3; RFC 8738 §6 for IP identifiers).
 *
 * One TLS handshake offers only `acme-tls/1`, and the server shows a special certificate. The
 * connection then closes at once. `acme-certificate.ts` checks the certificate. Errors contain the
 * identifier, the port and our own words.
 */

import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import { TLSSocket } from 'node:tls'
import { parseIpAddress } from '../../src/shared/lib/ip-address.ts'
import { createAddressPolicy } from '../address-policy.ts'
import { startDeadline } from '../deadline.ts'
import { createDnsClient } from '../dns/dns-client.ts'
import type { EvidenceStep, TlsAlpn01Job, ValidationVerdict } from '../job.ts'
import { type ReachContext, reach } from '../reach.ts'
import { checkAcmeCertificate } from './acme-certificate.ts'

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
    // RFC 8737 §3: one host cannot prove control of all names of a domain. Such a challenge is not
    // offered.
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

/**
 * RFC 8738 §6: the server name of an address is its reverse mapping (RFC 1034 §5.2.1, RFC 3596
 * §2.5).
 */
export function serverNameOf({ type, value }: TlsAlpn01Job['identifier']): string {
  if (type === 'dns') return value
  const octets = parseIpAddress(value)
  if (!octets) throw new RangeError(`not an IP address: ${value}`)
  if (octets.length === 4) return `${[...octets].reverse().join('.')}.in-addr.arpa`
  return `${[...octets.toString('hex')].reverse().join('.')}.ip6.arpa`
}
