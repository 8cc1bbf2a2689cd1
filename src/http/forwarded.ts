/** The effective address and scheme of a request behind a reverse proxy (`proxy.*`). */

import { BlockList, isIP } from 'node:net'
import type { HttpRequest } from './message.ts'

export interface ProxySettings {
  enabled: boolean
  /** Addresses and CIDR networks. */
  trustedProxies: readonly string[]
  /** Lower case. */
  forwardedForHeader: string
  forwardedProtoHeader: string
}

export interface EffectiveClient {
  address: string
  scheme: 'http' | 'https'
}

/** @param listenerScheme of the connection itself. */
export function createForwarding(settings: ProxySettings, listenerScheme: 'http' | 'https') {
  const isTrusted = trustedProxies(settings)

  return (request: HttpRequest): EffectiveClient => {
    const { peerAddress } = request
    if (!isTrusted(peerAddress)) return { address: peerAddress, scheme: listenerScheme }
    const proto = request.header(settings.forwardedProtoHeader)?.trim().toLowerCase()
    return {
      address: clientAddress(request.header(settings.forwardedForHeader), peerAddress, isTrusted),
      scheme: proto === 'https' || proto === 'http' ? proto : listenerScheme,
    }
  }
}

/** Whether an address is a proxy whose forwarding headers are trusted. */
export function trustedProxies(settings: ProxySettings): (address: string) => boolean {
  if (!settings.enabled) return () => false
  const trusted = new BlockList()
  for (const entry of settings.trustedProxies) addNetwork(trusted, entry)
  return (address) => trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/**
 * The first address from the right that is no trusted proxy. An invalid hop ends the search with a
 * proxy's address, which counts for rate limits but is never pre-approved.
 */
function clientAddress(header: string | undefined, peer: string, isTrusted: (address: string) => boolean): string {
  let client = peer
  const hops = header?.split(',') ?? []
  for (const hop of hops.reverse()) {
    const address = addressOf(hop.trim())
    if (address === undefined) return client
    client = address
    if (!isTrusted(address)) return client
  }
  return client
}

/** Azure, IIS and others append a port, and put brackets around IPv6. */
function addressOf(hop: string): string | undefined {
  const address = hop.replace(/^\[([\da-f]*:[\da-f:.]+)\](?::\d{1,5})?$|^([\d.]+):\d{1,5}$/i, '$1$2')
  return isIP(address) === 0 ? undefined : address
}

function addNetwork(list: BlockList, entry: string): void {
  const [address, prefix] = entry.split('/') as [string, string | undefined]
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
  if (prefix === undefined) list.addAddress(address, family)
  else list.addSubnet(address, Number(prefix), family)
}
