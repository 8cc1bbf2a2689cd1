/** CAA records in the notation of zone files, for scripted name servers. */

import type dnsPacket from 'dns-packet'
import type { Script } from './scripted-dns.ts'

/** `flags tag "value"` → a record of `name`. */
export function caa(name: string, line: string): dnsPacket.Answer {
  const [, flags, tag, value] = /^(\d+) (\S+) "(.*)"$/s.exec(line) as unknown as [string, string, string, string]
  return { type: 'CAA', name, ttl: 60, data: { flags: Number(flags), tag: tag as never, value } }
}

/** Records by name; every other name and type has none. The object may change while the server runs. */
export function caaScript(zone: Record<string, readonly string[]>): Script {
  return ({ name, type }) => ({
    answers: type === 'CAA' ? (zone[name] ?? []).map((line) => caa(name, line)) : [],
  })
}
