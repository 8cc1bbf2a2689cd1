/**
 * Asks the name servers of the zone itself (`require_authoritative`), past every cache.
 *
 * NS look-ups from the name upwards find the zone, and then all its servers are asked. They must agree, which they do
 * not while a change spreads. Silent and lame servers are ignored, as long as one answers. The zone chooses these
 * servers, so validation's address policy applies to them. The operator chooses resolvers, so it does not apply there.
 */

import { isIPv4 } from 'node:net'
import type { AddressPolicy } from '../address-policy.ts'
import { allWithGrace, type Deadline } from '../deadline.ts'
import { type Answered, askServers, type DnsClient, type DnsFailure } from './ask.ts'
import type { NameServer } from './dns-exchange.ts'
import type { DnsResponse, DnsType } from './dns-message.ts'

interface AuthorityOptions {
  /** Finds the zones and the addresses of their servers. */
  resolver: DnsClient
  policy: AddressPolicy
  /** 53, except in tests. */
  port: number
  retries: number
}

/** Zones have two to eight servers; the root has thirteen. */
const MAX_SERVERS = 8
/** One address per family, and a spare. */
const MAX_ADDRESSES = 3
const WAY = { dnssec: false, recursion: false, bothCases: true }
/** Time for the other servers after the first answer. */
const OTHERS_GRACE_MS = 2000

/** Returns every failure as a result. A response represents all servers that answered; `server` lists them. */
export async function askAuthorities(
  name: string,
  type: DnsType,
  deadline: Deadline,
  options: AuthorityOptions,
): Promise<Answered | DnsFailure> {
  const zone = await findServerNames(name, deadline, options.resolver)
  if (zone.kind === 'failed') return zone

  const controller = new AbortController()
  const { signal } = controller
  const { retries } = options
  const askOne = async (serverName: string) => {
    const addresses = await addressesOf(serverName, deadline, signal, options)
    if (addresses.length === 0) return failed('no address that may be asked')
    return askServers(addresses, name, type, { ...WAY, retries, deadline, signal })
  }
  const answers = await allWithGrace<Answered | DnsFailure>(
    zone.serverNames.slice(0, MAX_SERVERS).map(askOne),
    (answer) => answer.kind === 'response',
    OTHERS_GRACE_MS,
    () => controller.abort(),
  )
  return agreedAnswer(answers)
}

type ServerNames = { kind: 'found'; serverNames: readonly string[] } | DnsFailure

/** Finds the closest enclosing zone: the first name, from `name` upwards, with its own NS records. */
async function findServerNames(name: string, deadline: Deadline, resolver: DnsClient): Promise<ServerNames> {
  for (let zone = name; zone !== ''; zone = parentOf(zone)) {
    const found = await resolver.query(zone, 'NS', deadline)
    if (found.kind === 'failed') return found
    // An alias has no NS records (RFC 1034 §3.6.2); these belong to its target.
    if (found.kind === 'answer' && found.aliases.length === 0) {
      return { kind: 'found', serverNames: found.records.map(({ data }) => data) }
    }
  }
  return failed('no zone was found that the name belongs to')
}

const parentOf = (name: string) => (name.includes('.') ? name.slice(name.indexOf('.') + 1) : '')

/** Addresses that may be asked, possibly none. IPv4 first: half-configured IPv6 is common. */
async function addressesOf(
  serverName: string,
  deadline: Deadline,
  signal: AbortSignal,
  { resolver, policy, port }: AuthorityOptions,
): Promise<NameServer[]> {
  const found = await resolver.resolveAddresses(serverName, deadline, signal)
  if (found.kind !== 'answer') return []
  const allowed = [...found.ipv4, ...found.ipv6].filter((address) => !policy.isBlocked(address))
  const ipv4 = allowed.filter((address) => isIPv4(address)).slice(0, MAX_ADDRESSES - 1)
  return [...ipv4, ...allowed.filter((address) => !isIPv4(address))]
    .slice(0, MAX_ADDRESSES)
    .map((address) => ({ address, port }))
}

function agreedAnswer(answers: readonly (Answered | DnsFailure)[]): Answered | DnsFailure {
  const asked = answers.flatMap((answer) => (answer.kind === 'failed' ? answer.asked : [answer.server]))
  const good = answers.filter((answer) => answer.kind === 'response')
  const [first, ...others] = good
  if (!first) {
    const reason = answers.map((answer) => (answer.kind === 'failed' ? answer.reason : '')).at(-1)
    return failed(`no name server of the zone gave an answer: ${reason}`, asked)
  }
  if (others.some((other) => contentOf(other.response) !== contentOf(first.response)))
    return failed('the name servers of the zone do not agree', asked)
  return { ...first, server: good.map(({ server }) => server).join(', ') }
}

/** The content of a response, without the order and the age of its records. */
function contentOf({ rcode, answers }: DnsResponse): string {
  const records = answers.map((answer) => {
    if ('cname' in answer) return `${answer.owner} CNAME ${answer.cname}`
    return `${answer.owner} ${JSON.stringify(answer.record.data)}`
  })
  return [rcode, ...new Set(records.sort())].join('\n')
}

function failed(reason: string, asked: readonly string[] = []): DnsFailure {
  return { kind: 'failed', reason, retryable: true, asked }
}
