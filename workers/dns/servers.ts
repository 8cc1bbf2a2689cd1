/** Chooses the name servers for a name: `dns.resolvers`, `dns.zones` or the system's configuration. */

import { readFileSync } from 'node:fs'
import { isIP, isIPv4 } from 'node:net'
import type { DnsSettings } from '../job.ts'
import type { NameServer } from './dns-exchange.ts'

/** Name servers and fixed addresses of a zone. Compare by identity: one zone has one source. */
export interface NameSource {
  /** Empty for a zone with only addresses, which has no other records. */
  servers: readonly NameServer[]
  fixed?: { ipv4: readonly string[]; ipv6: readonly string[] }
}

const DNS_PORT = 53

/** `ip`, `ip:port`, `[v6]` or `[v6]:port`; undefined for anything else. */
export function parseNameServer(text: string): NameServer | undefined {
  if (isIP(text) !== 0) return { address: text, port: DNS_PORT }
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text)
  if (!match) return undefined

  const [, bracketed, plain, portText] = match
  const address = bracketed ?? plain ?? ''
  const port = portText === undefined ? DNS_PORT : Number(portText)
  const isRightForm = bracketed === undefined ? isIPv4(address) : isIP(address) === 6
  return isRightForm && port >= 1 && port <= 65535 ? { address, port } : undefined
}

/** Reads the `nameserver` lines of resolv.conf(5). Without any, it uses this host's resolver, as the C library does. */
export function parseResolvConf(text: string): NameServer[] {
  const servers = text
    .split('\n')
    .map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1])
    .flatMap((address) => (address !== undefined && isIP(address) !== 0 ? [{ address, port: DNS_PORT }] : []))
  return servers.length > 0 ? servers : [{ address: '127.0.0.1', port: DNS_PORT }]
}

/**
 * Returns a function from a name to its source. The longest zone that equals or contains the name wins.
 * @throws RangeError for an invalid resolver or address.
 */
export function createSourceFinder(settings: DnsSettings): (name: string) => NameSource {
  const { base, zones } = configuredSources(settings)
  let system: NameSource | undefined
  // Read once per attempt, on first use: 50 µs, and file changes take effect at once.
  const fromSystem = () => {
    system ??= { servers: systemServers() }
    return system
  }
  return (name) => zones.find(({ zone }) => name === zone || name.endsWith(`.${zone}`))?.source ?? base ?? fromSystem()
}

interface ConfiguredSources {
  base: NameSource | undefined
  /** Longest zone first. */
  zones: readonly { zone: string; source: NameSource | undefined }[]
}

function configuredSources(settings: DnsSettings): ConfiguredSources {
  return {
    base: settings.resolvers.length > 0 ? serverSource(settings.resolvers) : undefined,
    zones: settings.zones
      .map((entry) => ({ zone: normalName(entry.zone), source: zoneSource(entry) }))
      .sort((a, b) => b.zone.length - a.zone.length),
  }
}

/** Undefined for a zone without resolvers and addresses: it only excludes names from a wider zone. */
function zoneSource(entry: DnsSettings['zones'][number]): NameSource | undefined {
  const source = serverSource(entry.resolvers ?? [])
  if (!entry.addresses) return source.servers.length > 0 ? source : undefined

  const strange = entry.addresses.find((address) => isIP(address) === 0)
  if (strange !== undefined) throw new RangeError(`not an IP address: ${strange}`)
  return {
    ...source,
    fixed: {
      ipv4: entry.addresses.filter((address) => isIPv4(address)),
      ipv6: entry.addresses.filter((address) => !isIPv4(address)),
    },
  }
}

function serverSource(resolvers: readonly string[]): NameSource {
  const servers = resolvers.map((text) => {
    const server = parseNameServer(text)
    if (!server) throw new RangeError(`not a resolver (ip, ip:port or [v6]:port): ${text}`)
    return server
  })
  return { servers }
}

function systemServers(): NameServer[] {
  try {
    return parseResolvConf(readFileSync('/etc/resolv.conf', 'utf8'))
  } catch {
    // Without the file, the C library also asks this host.
    return parseResolvConf('')
  }
}

/** Lower case, no dot at either end: `.test`, `test.` and `TEST` are one zone. */
export function normalName(name: string): string {
  return name.toLowerCase().replace(/^\.|\.$/g, '')
}
