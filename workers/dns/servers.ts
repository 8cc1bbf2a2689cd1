/**
 * Which name servers answer for a name: `dns.resolvers`, the zones that override them,
 * or the system's configuration.
 */

import { readFileSync } from 'node:fs'
import { isIP, isIPv4 } from 'node:net'
import type { DnsSettings } from '../job.ts'
import type { NameServer } from './exchange.ts'

/**
 * Where to ask, and the fixed addresses of a zone that has some. Compare by
 * identity: one zone, one source.
 */
export interface NameSource {
  /** Empty for a zone with addresses alone: it has no other records. */
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

/**
 * `nameserver` lines of resolv.conf(5); without any, the resolver on this
 * host, as the C library does.
 */
export function parseResolvConf(text: string): NameServer[] {
  const servers = text
    .split('\n')
    .map((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1])
    .flatMap((address) => (address !== undefined && isIP(address) !== 0 ? [{ address, port: DNS_PORT }] : []))
  return servers.length > 0 ? servers : [{ address: '127.0.0.1', port: DNS_PORT }]
}

/**
 * A function from a name to its source; the longest zone that is the name or a suffix of it wins.
 * @throws RangeError for a resolver or address that is none.
 */
export function createSourceFinder(settings: DnsSettings): (name: string) => NameSource {
  const { base, zones } = configuredSources(settings)
  let system: NameSource | undefined
  // Read when first needed, for each attempt: 50 µs, and a changed file counts at once.
  const fromSystem = () => {
    system ??= { servers: systemServers() }
    return system
  }
  return (name) => zones.find(({ zone }) => name === zone || name.endsWith(`.${zone}`))?.source ?? base ?? fromSystem()
}

interface ConfiguredSources {
  base: NameSource | undefined
  /** The longest first. */
  zones: readonly { zone: string; source: NameSource | undefined }[]
}

/** Job after job brings the very same settings (shared-settings.ts). */
const sourcesBySettings = new WeakMap<DnsSettings, ConfiguredSources>()

function configuredSources(settings: DnsSettings): ConfiguredSources {
  const known = sourcesBySettings.get(settings)
  if (known) return known
  const sources = {
    base: settings.resolvers.length > 0 ? serverSource(settings.resolvers) : undefined,
    zones: settings.zones
      .map((entry) => ({ zone: normalName(entry.zone), source: zoneSource(entry) }))
      .sort((a, b) => b.zone.length - a.zone.length),
  }
  sourcesBySettings.set(settings, sources)
  return sources
}

/**
 * Undefined for a zone without resolvers and addresses: it only takes names out of a wider zone.
 */
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
    // Without the file the C library asks this host as well.
    return parseResolvConf('')
  }
}

/** Lower case, no dot at either end: `.test`, `test.` and `TEST` are one zone. */
export function normalName(name: string): string {
  return name.toLowerCase().replace(/^\.|\.$/g, '')
}
