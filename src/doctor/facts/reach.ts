/** Whether servers of others answer: a connection with its handshake, or one question to a name server. */

import { connect as connectPlain } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { type Exchange, exchangeTcp, exchangeUdp } from '../../../workers/dns/dns-exchange.ts'
import { buildQuery, type DnsResponse, type DnsType } from '../../../workers/dns/dns-message.ts'
import { parseNameServer } from '../../../workers/dns/servers.ts'
import { isIpAddress } from '../../shared/lib/host.ts'

export type Reached =
  | { failure: string; problem?: never; validTo?: never }
  /** `problem`: why a client that trusts `trusted` refuses its certificate. */
  | { failure?: never; problem: string | undefined; validTo: string | undefined }

const LIMIT_MS = 8_000

/** @param trusted PEM of the roots that count */
export function reach(url: string, trusted: readonly string[]): Promise<Reached> {
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return protocol === 'https:'
    ? connectTo(host, Number(port) || 443, LIMIT_MS, trusted)
    : connectTo(host, Number(port) || 80, LIMIT_MS)
}

/** @param trusted as above; undefined where the server speaks no TLS */
export function connectTo(host: string, port: number, timeout: number, trusted?: readonly string[]): Promise<Reached> {
  return new Promise((resolve) => {
    const socket = trusted
      ? connectTls({
          host,
          port,
          timeout,
          rejectUnauthorized: false,
          ca: [...trusted],
          ...(!isIpAddress(host) && { servername: host }),
        })
      : connectPlain({ host, port, timeout })
    const end = (reached: Reached) => {
      socket.destroy()
      resolve(reached)
    }
    socket.once(trusted ? 'secureConnect' : 'connect', () => end(trusted ? seen(socket as TLSSocket) : NO_TLS))
    socket.once('timeout', () => end({ failure: `no answer within ${timeout / 1000} s` }))
    socket.once('error', (error: NodeJS.ErrnoException) => end({ failure: error.code ?? error.message }))
  })
}

const NO_TLS: Reached = { problem: undefined, validTo: undefined }

function seen(socket: TLSSocket): Reached {
  const { authorized, authorizationError } = socket
  const { valid_to: validTo } = socket.getPeerCertificate()
  return { problem: authorized ? undefined : String(authorizationError), validTo }
}

export type DnsAsked = { response: DnsResponse; failure?: never } | { response?: never; failure: string }

const DNS_LIMIT_MS = 3_000
const DNS_TRIES = 2

/**
 * Asks one question as validation asks it.
 * @param server in the form of `dns.resolvers`
 */
export async function askNameServer(server: string, name: string, type: DnsType): Promise<DnsAsked> {
  const parsed = parseNameServer(server)
  if (!parsed) return { failure: 'is no address' }
  const query = buildQuery(name.toLowerCase(), type, { edns: true, dnssec: true, recursion: true })
  let found: Exchange = { kind: 'silence' }
  // A datagram may be lost (RFC 1035 §4.2.1), and a busy host may answer late.
  for (let tries = 0; tries < DNS_TRIES && found.kind === 'silence'; tries++) {
    const over = AbortSignal.timeout(DNS_LIMIT_MS)
    found = await exchangeUdp(parsed, query, DNS_LIMIT_MS, over)
    if (found.kind === 'use-tcp') found = await exchangeTcp(parsed, query, DNS_LIMIT_MS, over)
  }
  if (found.kind === 'response') return { response: found.response }
  return { failure: found.kind === 'failed' ? found.reason : `no answer within ${(DNS_TRIES * DNS_LIMIT_MS) / 1000} s` }
}
