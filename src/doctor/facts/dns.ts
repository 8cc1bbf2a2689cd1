/** One question to one name server, asked as validation asks it. */

import { type Exchange, exchangeTcp, exchangeUdp } from '../../../workers/dns/dns-exchange.ts'
import { buildQuery, type DnsResponse, type DnsType } from '../../../workers/dns/dns-message.ts'
import { parseNameServer } from '../../../workers/dns/servers.ts'

export type DnsAsked = { response: DnsResponse; failure?: never } | { response?: never; failure: string }

const LIMIT_MS = 3_000
const TRIES = 2

/** @param server in the form of `dns.resolvers` */
export async function askNameServer(server: string, name: string, type: DnsType): Promise<DnsAsked> {
  const parsed = parseNameServer(server)
  if (!parsed) return { failure: 'is no address' }
  const query = buildQuery(name.toLowerCase(), type, { edns: true, dnssec: true, recursion: true })
  let found: Exchange = { kind: 'silence' }
  // A datagram may be lost (RFC 1035 §4.2.1), and a busy host may answer late.
  for (let tries = 0; tries < TRIES && found.kind === 'silence'; tries++) {
    const over = AbortSignal.timeout(LIMIT_MS)
    found = await exchangeUdp(parsed, query, LIMIT_MS, over)
    if (found.kind === 'use-tcp') found = await exchangeTcp(parsed, query, LIMIT_MS, over)
  }
  if (found.kind === 'response') return { response: found.response }
  return { failure: found.kind === 'failed' ? found.reason : `no answer within ${(TRIES * LIMIT_MS) / 1000} s` }
}
