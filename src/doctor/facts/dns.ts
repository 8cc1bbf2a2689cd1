/** One question to one name server, as validation asks it. */

import { exchangeTcp, exchangeUdp } from '../../../workers/dns/dns-exchange.ts'
import { buildQuery, type DnsResponse, type DnsType } from '../../../workers/dns/dns-message.ts'
import { parseNameServer } from '../../../workers/dns/servers.ts'

export type DnsAsked = { response: DnsResponse; failure?: never } | { response?: never; failure: string }

const LIMIT_MS = 3_000

/** @param server as in `dns.resolvers` */
export async function askNameServer(server: string, name: string, type: DnsType): Promise<DnsAsked> {
  const parsed = parseNameServer(server)
  if (!parsed) return { failure: 'is no address' }
  const query = buildQuery(name.toLowerCase(), type, { edns: true, dnssec: true, recursion: true })
  const over = AbortSignal.timeout(LIMIT_MS)
  let found = await exchangeUdp(parsed, query, LIMIT_MS, over)
  if (found.kind === 'use-tcp') found = await exchangeTcp(parsed, query, LIMIT_MS, over)
  if (found.kind === 'response') return { response: found.response }
  return { failure: found.kind === 'failed' ? found.reason : `no answer within ${LIMIT_MS / 1000} s` }
}
