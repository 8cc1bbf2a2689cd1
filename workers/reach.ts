/**
 * Opens a connection to the host of a challenge: look-up, filter of blocked addresses, connection.
 * http-01 (on every hop) and tls-alpn-01 share it.
 *
 * One look-up serves check and connection, so changing the address in between gains nothing.
 */

import { isIP, isIPv4, type Socket } from 'node:net'
import type { AddressPolicy } from './address-policy.ts'
import type { Deadline } from './deadline.ts'
import type { DnsClient } from './dns/result.ts'
import type { EvidenceStep } from './job.ts'
import { type ConnectionFailure, connect, type TlsOffer } from './outbound-connection.ts'

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

/**
 * One IPv6 and a few IPv4 addresses, or a few of the only family. Each gets its share of the
 * remaining time.
 */
const MAX_CONNECT_ATTEMPTS = 4
/**
 * Per family. An answer has up to a thousand, and each address is compared with every blocked
 * network.
 */
const MAX_ADDRESSES = 32

/**
 * Handles any input and ends within the deadline. The socket has one listener, which ignores
 * errors.
 */
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

/**
 * RFC 8555 §8.3 leaves the choice. One IPv6 address, then IPv4, because half-configured IPv6 is
 * common.
 */
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
