/**
 * Opens a connection to the host of a challenge: look-up, filter of blocked addresses, connection.
 * http-01 (on every hop) and tls-alpn-01 share it.
 *
 * One look-up serves check and connection, so changing the address in between gains nothing. A connection to an untrusted
 * peer, plain or TLS, has a time limit, and errors contain only our own words.
 */

import { connect as connectTcp, isIP, isIPv4, type Socket } from 'node:net'
import { connect as connectTls, createSecureContext, type SecureContext } from 'node:tls'
import { startTimeLimit } from '../src/shared/lib/time-limit.ts'
import type { AddressPolicy } from './address-policy.ts'
import type { Deadline } from './deadline.ts'
import type { DnsClient } from './dns/ask.ts'
import type { EvidenceStep } from './job.ts'

interface Destination {
  /** A name, or an IP address that needs no look-up; IPv6 without brackets. */
  host: string
  port: number
  tls: TlsOffer | undefined
}

/** State of an attempt. Every event adds a step of evidence. */
export interface ReachContext {
  dns: DnsClient
  policy: AddressPolicy
  deadline: Deadline
  evidence: EvidenceStep[]
}

interface Unreached {
  kind: 'unreached'
  problem: 'dns' | 'connection' | 'tls'
  /** Our own words, without an address. */
  reason: string
  retryable: boolean
}

/** One IPv6 and a few IPv4 addresses, or a few of the only family. Each gets its share of the remaining time. */
const MAX_CONNECT_ATTEMPTS = 4
/** Per family. An answer has up to a thousand, and each address is compared with every blocked network. */
const MAX_ADDRESSES = 32

/** Handles any input and ends within the deadline. The socket has one listener, which ignores errors. */
export async function reach(destination: Destination, context: ReachContext): Promise<Socket | Unreached> {
  const found = await addressesOf(destination.host, context)
  if ('kind' in found) return found

  const blocked: string[] = []
  const allowed: string[] = []
  for (const address of found) (context.policy.isBlocked(address) ? blocked : allowed).push(address)
  if (blocked.length > 0) context.evidence.push({ step: 'blocked', addresses: blocked })
  if (allowed.length === 0) return unreached('connection', 'no address that this server may connect to', false)
  return connectToOne(destination, connectOrder(allowed), context)
}

/** IPv6 first. */
async function addressesOf(host: string, { dns, deadline, evidence }: ReachContext): Promise<string[] | Unreached> {
  if (isIP(host) !== 0) return [host]

  const found = await dns.resolveAddresses(host, deadline)
  if (found.kind === 'answer') {
    const { resolver, aliases, ipv6, ipv4 } = found
    const addresses = [...ipv6.slice(0, MAX_ADDRESSES), ...ipv4.slice(0, MAX_ADDRESSES)]
    evidence.push({ step: 'resolved', host, addresses, resolver, aliases })
    return addresses
  }
  const reason = found.kind === 'failed' ? found.reason : NO_ADDRESS[found.kind]
  evidence.push({ step: 'not-resolved', host, reason })
  return unreached('dns', `address look-up failed: ${reason}`, found.kind !== 'failed' || found.retryable)
}

const NO_ADDRESS = { nxdomain: 'the name does not exist (NXDOMAIN)', nodata: 'the name has no A or AAAA record' }

/** RFC 8555 §8.3 leaves the choice. One IPv6 address, then IPv4, because half-configured IPv6 is common. */
function connectOrder(addresses: readonly string[]): string[] {
  const ipv6 = addresses.filter((address) => !isIPv4(address))
  const ipv4 = addresses.filter((address) => isIPv4(address))
  const order = ipv4.length > 0 ? [...ipv6.slice(0, 1), ...ipv4] : ipv6
  return order.slice(0, MAX_CONNECT_ATTEMPTS)
}

async function connectToOne(
  { port, tls }: Destination,
  order: readonly string[],
  { deadline, evidence }: ReachContext,
): Promise<Socket | Unreached> {
  let failure: ConnectionFailure = { kind: 'failed', phase: 'connect', reason: 'timed out' }
  for (const [index, address] of order.entries()) {
    const shareMs = deadline.remainingMs() / (order.length - index)
    const socket = await connect({ address, port, tls }, shareMs)
    if (!('kind' in socket)) {
      evidence.push({ step: 'connected', address, port })
      return socket
    }
    evidence.push({ step: 'not-connected', address, port, reason: socket.reason })
    failure = socket
  }
  const { phase, reason } = failure
  return phase === 'tls'
    ? unreached('tls', `no TLS connection: ${reason}`, true)
    : unreached('connection', `could not connect: ${reason}`, true)
}

function unreached(problem: Unreached['problem'], reason: string, retryable: boolean): Unreached {
  return { kind: 'unreached', problem, reason, retryable }
}

interface Endpoint {
  /** IP address; never a name. */
  address: string
  port: number
  /** Undefined for a plain connection. */
  tls: TlsOffer | undefined
}

export interface TlsOffer {
  /** Server name indication (RFC 6066 §3); undefined sends none. */
  serverName: string | undefined
  /** The protocols that ALPN offers (RFC 7301). */
  protocols: string[]
}

type FailedPhase = 'connect' | 'tls' | 'exchange'
export interface ConnectionFailure {
  kind: 'failed'
  phase: FailedPhase
  /** Our own words, never the peer's. */
  reason: string
}

/** Limit on the wire. OpenSSL accepts a chain of 100 KiB, and an http-01 answer is smaller. */
const MAX_TLS_BYTES = 524_288
const TLS_LOOK_MS = 25

/** All connections share one context, because it holds nothing of a peer. Creating one takes half a millisecond. */
let sharedContext: SecureContext | undefined

/**
 * Opens a connection within `timeoutMs`, including the TLS handshake (TLS 1.2 or later). It verifies no certificate:
 * the host may still wait for its first one, and the challenge proves control.
 */
async function connect(endpoint: Endpoint, timeoutMs: number): Promise<Socket | ConnectionFailure> {
  const startedAt = performance.now()
  // A plain connection carries one request in one segment, so Nagle's algorithm delays nothing.
  const noDelay = endpoint.tls !== undefined
  const socket = connectTcp({ host: endpoint.address, port: endpoint.port, noDelay })
  const failure = await opened(socket, 'connect', 'connect', timeoutMs)
  if (failure) return failure
  if (endpoint.tls === undefined) return socket

  const { serverName, protocols } = endpoint.tls
  sharedContext ??= createSecureContext({ minVersion: 'TLSv1.2' })
  const secured = connectTls({
    socket,
    rejectUnauthorized: false,
    secureContext: sharedContext,
    ALPNProtocols: protocols,
    ...(serverName !== undefined && { servername: serverName }),
  })
  limitBytes(secured, socket)
  const leftMs = timeoutMs - (performance.now() - startedAt)
  return (await opened(secured, 'secureConnect', 'tls', leftMs)) ?? secured
}

/**
 * Polls, because Node reports no bytes that TLS discards. A server may send any number of
 * HelloRequest messages while it negotiates (RFC 5246 §7.4.1.1).
 */
function limitBytes(secured: Socket, wire: Socket): void {
  const timer = setInterval(() => {
    if (wire.bytesRead > MAX_TLS_BYTES) secured.destroy(Object.assign(new Error('too long'), { code: TOO_LONG }))
  }, TLS_LOOK_MS)
  secured.once('close', () => clearInterval(timer))
}

const TOO_LONG = 'ERR_TOO_LONG'

/** Resolves to undefined on the event; otherwise destroys the socket and returns the failure. */
function opened(
  socket: Socket,
  event: string,
  phase: FailedPhase,
  timeoutMs: number,
): Promise<ConnectionFailure | undefined> {
  return new Promise((resolve) => {
    const finish = (failure: ConnectionFailure | undefined) => {
      stopTimer()
      socket.removeAllListeners(event).removeListener('error', onError).removeListener('close', onClose)
      // Later errors still need a listener until the next owner adds its own.
      socket.on('error', () => {})
      if (failure) socket.destroy()
      resolve(failure)
    }
    const fail = (reason: string) => finish({ kind: 'failed', phase, reason })
    const onError = (error: Error) => fail(errorReason(error))
    const onClose = () => fail('connection closed')
    const stopTimer = startTimeLimit(Math.max(0, timeoutMs), () => fail('timed out'))
    socket.once(event, () => finish(undefined))
    socket.once('error', onError)
    socket.once('close', onClose)
  })
}

export const SENT_WITHOUT_END = 'the server sends without end'

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EADDRNOTAVAIL: 'address not available',
  [TOO_LONG]: SENT_WITHOUT_END,
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'the server does not speak TLS 1.2 or later',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'the server does not speak TLS 1.2 or later',
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: 'the server does not speak what ALPN offers',
}

/** Uses only the error's code, because messages can quote the peer. */
export function errorReason(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  if (REASONS[code] !== undefined) return REASONS[code]
  if (code.startsWith('HPE_')) return 'not an HTTP response'
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO') return 'TLS handshake failed'
  return 'connection failed'
}
