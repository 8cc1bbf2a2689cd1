/**
 * The needs of validation: name servers that answer, validate DNSSEC and know the names of the service, and hosts of
 * clients whose addresses and ports are reached from here.
 */

import { readFileSync } from 'node:fs'
import { createAddressPolicy } from '../../../workers/address-policy.ts'
import type { DnsData } from '../../../workers/dns/dns-message.ts'
import { parseResolvConf } from '../../../workers/dns/servers.ts'
import type { Config } from '../../config/schema.ts'
import { hostOf, isIpAddress } from '../../shared/lib/host.ts'
import { askNameServer, connectTo, type DnsAsked } from '../facts/reach.ts'
import type { Check, Sources } from '../sources.ts'
import { CannotTell, failure, ok, orOk, unknownBecause, type Verdict, warning } from '../verdict.ts'

const SECTIONS = ['dns01', 'dnspersist01', 'dnsaccount01'] as const

export const RESOLVERS: readonly Check[] = [
  {
    id: 'resolvers.answer',
    title: 'Every name server of validation answers',
    look: (sources) =>
      forEachServer(sources, async (server) => judgeAnswer(server, await askNameServer(server, ownName(sources), 'A'))),
  },
  {
    id: 'resolvers.dnssec',
    title: 'The name servers that have to validate DNSSEC do so',
    async look(sources) {
      const { challenges, dns } = sources.config
      const strict = SECTIONS.filter(
        (section) => challenges[section].require_dnssec && isOffered(sources.config, section),
      )
      if (strict.length === 0) return undefined
      const servers = strict.flatMap((section) =>
        challenges[section].resolvers.length > 0 ? challenges[section].resolvers : dns.resolvers,
      )
      const own = new Set(servers.length > 0 ? servers : systemServers())
      return Promise.all(
        [...own].map(async (server) => judgeDnssec(server, await askNameServer(server, SIGNED_ZONE, 'NS'))),
      )
    },
  },
  {
    id: 'resolvers.own-name',
    title: 'The name of the service resolves for validation, too',
    async look(sources) {
      const name = ownName(sources)
      if (isIpAddress(hostOf(sources.config.server.external_url)) || !name.includes('.')) return undefined
      return forEachServer(sources, async (server) => {
        const [four, six] = await Promise.all([askNameServer(server, name, 'A'), askNameServer(server, name, 'AAAA')])
        return judgeOwnName(server, name, [four, six])
      })
    },
  },
  {
    id: 'resolvers.caa',
    title: 'CAA records can be looked up, where they count',
    async look(sources) {
      const { caa_enforce, caa_identities } = sources.config.acme
      if (!caa_enforce || caa_identities.length === 0)
        return ok(
          `CAA records are not looked at: acme.${caa_enforce ? 'caa_identities is empty' : 'caa_enforce is false'}`,
        )
      const { allowed_domains } = sources.config.security.identifier_policy
      const name = (allowed_domains[0] ?? ownName(sources)).replace(/^\*\./, '')
      return forEachServer(sources, async (server) =>
        judgeCaa(server, name, await askNameServer(server, name, 'CAA'), caa_identities),
      )
    },
  },
]

/** The zone and its delegation are signed for as long as there is DNSSEC. */
const SIGNED_ZONE = 'com'

/** A name without a dot is this host's; every name server knows the zone. */
function ownName({ config }: Sources): string {
  const host = hostOf(config.server.external_url)
  return isIpAddress(host) ? SIGNED_ZONE : host
}

const TYPES = { dns01: 'dns-01', dnspersist01: 'dns-persist-01', dnsaccount01: 'dns-account-01' } as const
const isOffered = ({ challenges }: Config, section: keyof typeof TYPES) => challenges.enabled.includes(TYPES[section])

function systemServers(): string[] {
  try {
    return parseResolvConf(readFileSync('/etc/resolv.conf', 'utf8')).map(({ address }) => address)
  } catch {
    return ['127.0.0.1']
  }
}

/** A zone may have name servers of its own, which know only that zone. */
function serversOf({ dns, challenges }: Config): string[] {
  const own = SECTIONS.flatMap((section) => challenges[section].resolvers)
  const general = dns.resolvers.length > 0 ? dns.resolvers : systemServers()
  return [...new Set([...general, ...own])]
}

async function forEachServer(
  sources: Sources,
  look: (server: string) => Promise<Verdict>,
): Promise<readonly Verdict[]> {
  return Promise.all(serversOf(sources.config).map(look))
}

function judgeAnswer(server: string, { response, failure: why }: DnsAsked): Verdict {
  const elsewhere = `name servers that answer in dns.resolvers; dig @${server.replace(/:(\d+)$/, ' -p $1')} shows what it says`
  if (!response) return failure(`the name server ${server} does not answer: ${why}`, elsewhere)
  if (response.rcode === 'REFUSED' || response.rcode === 'SERVFAIL')
    return failure(
      `the name server ${server} answers ${response.rcode}`,
      `let it resolve for this host, or name ${elsewhere}`,
    )
  return ok(`${server} answers`)
}

export function judgeDnssec(server: string, { response, failure: why }: DnsAsked): Verdict {
  if (response?.rcode !== 'NOERROR')
    return unknownBecause(`${server} does not know the signed zone ${SIGNED_ZONE}: ${why ?? response?.rcode}`)
  if (response.authenticated) return ok(`${server} sets AD`)
  return failure(
    `the name server ${server} does not say that signed answers are validated (AD): with require_dnssec no proof counts`,
    'name a validating resolver in the resolvers of the method, best one on this host, such as unbound',
  )
}

export function judgeOwnName(server: string, name: string, asked: readonly DnsAsked[]): Verdict {
  const known = asked.flatMap(({ response }) => (response ? [response] : []))
  if (known.length === 0) return unknownBecause(`${server} does not answer`)
  const addresses = known.flatMap(({ answers }) => answers).filter((answer) => 'record' in answer)
  if (addresses.length > 0) return ok(`${server} knows ${name}`)
  return warning(
    `the name server ${server} has no address of ${name} (${known[0]?.rcode})`,
    `see that it is the name server that clients have, or correct server.external_url`,
  )
}

function judgeCaa(
  server: string,
  name: string,
  { response, failure: why }: DnsAsked,
  identities: readonly string[],
): Verdict {
  if (!response || !['NOERROR', 'NXDOMAIN'].includes(response.rcode))
    return failure(
      `the name server ${server} gives no answer about CAA records of ${name} (${why ?? response?.rcode}): nothing below it is issued`,
      'see its log; acme.caa_unreachable_ok names zones where that may be (docs/operations/validation.md)',
    )
  const records = response.answers.flatMap((answer) =>
    'record' in answer ? [answer.record.data as DnsData['CAA']] : [],
  )
  const issuers = records.filter(({ tag }) => tag === 'issue').map(({ value }) => value.split(';')[0]?.trim() ?? '')
  if (issuers.length === 0 || issuers.some((issuer) => identities.includes(issuer)))
    return ok(`${server}: ${name} permits this CA`)
  return failure(
    `the CAA records of ${name} permit ${issuers.join(', ') || 'nobody'}, and acme.caa_identities is ${identities.join(', ')}: nothing below it is issued`,
    `add the record ${name} CAA 0 issue "${identities[0]}", or correct acme.caa_identities`,
  )
}

const CONNECT_MS = 5_000

export const CHALLENGES: readonly Check[] = [
  {
    id: 'challenges.blocked',
    title: 'The addresses that clients have are not blocked, and those of this host are',
    async look(sources) {
      const { http01, tlsalpn01, enabled } = sources.config.challenges
      const used = [
        ...(enabled.includes('http-01') ? (['http01'] as const) : []),
        ...(enabled.includes('tls-alpn-01') ? (['tlsalpn01'] as const) : []),
      ]
      if (used.length === 0) return undefined
      const networks = { http01: http01.blocked_networks, tlsalpn01: tlsalpn01.blocked_networks }
      const open = used.filter((section) => !createAddressPolicy(networks[section]).isBlocked('127.0.0.1'))
      const { target } = sources.options
      const addresses = target === undefined ? [] : await addressesOf(sources, target)
      return orOk(
        [
          ...open.map((section) =>
            warning(
              `challenges.${section}.blocked_networks leaves out 127.0.0.0/8: a client whose name leads there lets the service ask this host`,
              'add 127.0.0.0/8 and ::1/128, or leave the key out',
            ),
          ),
          ...used.flatMap((section) =>
            addresses
              .filter((address) => createAddressPolicy(networks[section]).isBlocked(address))
              .map((address) =>
                failure(
                  `${target} has the address ${address}, which challenges.${section}.blocked_networks forbids`,
                  'take its network out of the list, where clients live there',
                ),
              ),
          ),
        ],
        `${networks[used[0]!].length} networks are blocked`,
      )
    },
  },
  onPort('http-port', 'http-01', 'http01'),
  onPort('tls-port', 'tls-alpn-01', 'tlsalpn01'),
]

async function addressesOf(sources: Sources, name: string): Promise<string[]> {
  if (isIpAddress(name)) return [name]
  const [server] = serversOf(sources.config)
  const asked = await Promise.all([askNameServer(server!, name, 'A'), askNameServer(server!, name, 'AAAA')])
  const addresses = asked
    .flatMap(({ response }) => response?.answers ?? [])
    .flatMap((one) => ('record' in one ? [String(one.record.data)] : []))
  if (addresses.length === 0) throw new CannotTell(`${server} has no address of ${name}`)
  return addresses
}

function onPort(id: string, method: 'http-01' | 'tls-alpn-01', section: 'http01' | 'tlsalpn01'): Check {
  return {
    id: `challenges.${id}`,
    title: `The port of ${method} is reached from here`,
    async look(sources) {
      const { enabled, [section]: settings } = sources.config.challenges
      if (!enabled.includes(method)) return undefined
      const { target } = sources.options
      if (target === undefined)
        return unknownBecause('no host of a client is named', 'name one that listens: --target NAME')
      const addresses = await addressesOf(sources, target)
      const results = await Promise.all(addresses.map((address) => connectTo(address, settings.port, CONNECT_MS)))
      if (results.some(({ failure: why }) => why === undefined))
        return ok(`port ${settings.port} of ${target} is reached`)
      return failure(
        `port ${settings.port} of ${target} (${addresses.join(', ')}) is not reached from here: ${results[0]?.failure}`,
        `let this host through to port ${settings.port} of clients: the firewall here, between, and there; a client of ${method} listens only while it orders`,
      )
    },
  }
}
