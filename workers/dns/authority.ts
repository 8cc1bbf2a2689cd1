/**
 * A question to the name servers that a zone itself names
 * (`require_authoritative`), past every cache.
 *
 * The zone is found by looking NS records up, from the name upwards; then every server of it is
 * asked. They have to agree: while a change spreads they do not, and a server that says something
 * else than its peers is no witness either. A server that is silent or lame is left out, as long as
 * one answers. What these servers' names and addresses are is up to the zone, so the address policy
 * of validation applies to them, unlike to resolvers, which the operator chose.
 */

import { isIPv4 } from 'node:net'
import type { AddressPolicy } from '../address-policy.ts'
import type { Deadline } from '../deadline.ts'
import { type Answered, askServers, type DnsFailure } from './ask.ts'
import type { NameServer } from './exchange.ts'
import { allWithGrace } from './grace.ts'
import type { DnsResponse, DnsType } from './message.ts'
import type { DnsClient } from './result.ts'

export interface AuthorityOptions {
  /** Finds the zones and the addresses of their servers. */
  resolver: DnsClient
  policy: AddressPolicy
  /** 53 but for tests. */
  port: number
  retries: number
}

/** Zones have two to eight; the root has thirteen. */
const MAX_SERVERS = 8
/** An address of each family, and a spare. */
const MAX_ADDRESSES = 3
const WAY = { dnssec: false, recursion: false, bothCases: true }
/** Once one server has answered, how long the others may still take. */
const OTHERS_GRACE_MS = 2000

/** Total. A response stands for all servers that answered; its `server` lists them. */
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

/**
 * The closest enclosing zone: the first name, from `name` upwards, that has NS records of its own.
 */
async function findServerNames(name: string, deadline: Deadline, resolver: DnsClient): Promise<ServerNames> {
  for (let zone = name; zone !== ''; zone = parentOf(zone)) {
    const found = await resolver.query(zone, 'NS', deadline)
    if (found.kind === 'failed') return found
    // An alias has no NS records of its own (RFC 1034 §3.6.2); what came belongs to its target.
    if (found.kind === 'answer' && found.aliases.length === 0) {
      return { kind: 'found', serverNames: found.records.map(({ data }) => data) }
    }
  }
  return failed('no zone was found that the name belongs to')
}

const parentOf = (name: string) => (name.includes('.') ? name.slice(name.indexOf('.') + 1) : '')

/**
 * Empty when there is none, or none that may be asked. IPv4 first: half-configured IPv6 is common.
 */
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

/** What a response says, whatever the order and the age of its records. */
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
