/**
 * Asks name servers one question, within one deadline. Results of a look-up and the interface of the client are here, too.
 *
 * One of the resolvers has to answer. Only silence leads to a repeat. A server with an error would repeat it a moment later
 * (RFC 9520 makes resolvers remember it); the challenge's next attempt asks again.
 *
 * With `require_authoritative` the name servers of the zone itself are asked, past every cache. NS look-ups from the
 * name upwards find the zone, and then all its servers are asked. They must agree, which they do not while a change
 * spreads. Silent and lame servers are ignored, as long as one answers. The zone chooses these servers, so validation's
 * address policy applies to them. The operator chooses resolvers, so it does not apply there.
 */

import { isIPv4, isIPv6 } from 'node:net'
import type { AddressPolicy } from '../address-policy.ts'
import { allWithGrace, type Deadline } from '../deadline.ts'
import { type Exchange, exchangeTcp, exchangeUdp, type NameServer } from './dns-exchange.ts'
import { buildQuery, type DnsQuery, type DnsRecord, type DnsResponse, type DnsType } from './dns-message.ts'

interface AskOptions {
  /** Asks for DNSSEC records and the AD bit (RFC 6840 §5.7). */
  dnssec: boolean
  /** True asks a resolver to recurse. False asks a zone's own server, which must answer with authority. */
  recursion: boolean
  /** Extra rounds through the silent servers. */
  retries: number
  /** An empty answer in random letter case leads to a repeat in lower case (docs/decisions/dns-lower-case.md). */
  bothCases: boolean
  deadline: Deadline
  signal: AbortSignal
}

/** `reason` contains only our own words, so that a client may see it. */
export interface DnsFailure {
  kind: 'failed'
  reason: string
  retryable: boolean
  /** `address:port` of every server asked, for evidence. */
  asked: readonly string[]
}

export interface Answered {
  kind: 'response'
  response: DnsResponse
  /** `address:port`. */
  server: string
}

/** Shortest wait that suffices for a name server on another continent. */
const LEAST_WAIT_MS = 50

/**
 * Returns every failure as a result. NOERROR and NXDOMAIN are answers; after anything else the next
 * server may know more.
 */
export async function askServers(
  servers: readonly NameServer[],
  name: string,
  type: DnsType,
  options: AskOptions,
): Promise<Answered | DnsFailure> {
  const asked = new Set<string>()
  let reason = 'no answer in time'
  let toAsk = [...servers]
  for (let round = options.retries; round >= 0; round--) {
    const silent: NameServer[] = []
    for (const [index, server] of toAsk.entries()) {
      if (options.deadline.remainingMs() === 0 || options.signal.aborted) break
      const waitMs = share(options.deadline.remainingMs(), toAsk.length - index, silent.length, round)
      asked.add(serverText(server))
      const exchange = await ask(server, name, type, waitMs, options)
      const refusal = refusalOf(exchange, options.recursion)
      if (exchange.kind === 'response' && refusal === undefined)
        return { kind: 'response', response: exchange.response, server: serverText(server) }
      if (exchange.kind === 'silence') silent.push(server)
      else reason = refusal ?? reason
    }
    toAsk = silent
  }
  return { kind: 'failed', reason, retryable: true, asked: [...asked] }
}

/**
 * Wait for one server; each round takes twice as long as the one before. Time that failed servers
 * did not use goes to the others, and all of it to the last wait.
 * @param silent servers of this round to ask again, if `laterRounds` is above 0
 */
function share(leftMs: number, stillInRound: number, silent: number, laterRounds: number): number {
  const perServerLater = 2 ** (laterRounds + 1) - 2
  return Math.max(LEAST_WAIT_MS, leftMs / (stillInRound + (stillInRound + silent) * perServerLater))
}

/** Why the exchange gave no usable answer; undefined for a good one. */
function refusalOf(exchange: Exchange, recursion: boolean): string | undefined {
  if (exchange.kind === 'failed') return exchange.reason
  if (exchange.kind !== 'response') return undefined
  const { rcode, isReferral, authoritative } = exchange.response
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN') return `the name server answered ${rcode}`
  // Such a server knows nothing about the name, so its answer does not mean "no such record" (RFC 2308 §2.2).
  if (recursion ? isReferral : !authoritative) return 'the name server does not serve the zone'
  return undefined
}

interface Question {
  name: string
  type: DnsType
  edns: boolean
}

/** Asks one server, and again without EDNS if the server does not support it (RFC 6891 §7). */
async function ask(
  server: NameServer,
  name: string,
  type: DnsType,
  waitMs: number,
  options: AskOptions,
): Promise<Exchange> {
  const withEdns = await askInCases(server, { name, type, edns: true }, waitMs, options)
  if (withEdns.kind !== 'response' || !['FORMERR', 'NOTIMP', 'RCODE16'].includes(withEdns.response.rcode))
    return withEdns
  return askInCases(server, { name, type, edns: false }, waitMs, options)
}

/** Asks in random letter case. Against RFC 4343, some servers compare octets and find nothing then. */
async function askInCases(
  server: NameServer,
  { name, type, edns }: Question,
  waitMs: number,
  options: AskOptions,
): Promise<Exchange> {
  const { recursion } = options
  const query = (lowerCase: boolean) =>
    buildQuery(name, type, { edns, dnssec: edns && options.dnssec, recursion, lowerCase })
  const left = () => Math.min(waitMs, options.deadline.remainingMs())
  const askOver = async (query: DnsQuery, needsTcp: (overUdp: Exchange) => boolean) => {
    const overUdp = await exchangeUdp(server, query, left(), options.signal)
    return needsTcp(overUdp) ? exchangeTcp(server, query, left(), options.signal) : overUdp
  }

  const found = await askOver(query(false), ({ kind }) => kind === 'use-tcp')
  if (!options.bothCases || !isNothing(found)) return found
  // Lower case gives a forger nothing to guess, so records count only over TCP.
  return askOver(query(true), (overUdp) => overUdp.kind === 'use-tcp' || isSomething(overUdp))
}

const isNothing = (exchange: Exchange) => isAnswer(exchange) && exchange.response.answers.length === 0
const isSomething = (exchange: Exchange) => isAnswer(exchange) && exchange.response.answers.length > 0

function isAnswer(exchange: Exchange): exchange is Exchange & { kind: 'response' } {
  return exchange.kind === 'response' && ['NOERROR', 'NXDOMAIN'].includes(exchange.response.rcode)
}

function serverText({ address, port }: NameServer): string {
  return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`
}

/** Facts of every definite answer, for evidence and for `require_dnssec`. */
export interface AnswerFacts {
  /** `address:port` of the server with the final answer. For zone servers, of all that answered, comma-separated. */
  resolver: string
  /** True when every response had the AD bit (RFC 4035 §3.2.3). It is only as safe as the path to the resolver. */
  authenticated: boolean
  /** Aliases followed, in order. */
  aliases: readonly string[]
}

/** `ttlSeconds` of a record is at most the TTL of any alias before it. */
export type DnsResult<T extends DnsType> =
  | ({ kind: 'answer'; records: readonly DnsRecord<T>[] } & AnswerFacts)
  | ({ kind: 'nodata' | 'nxdomain' } & AnswerFacts)
  | DnsFailure

export type AddressResult =
  /** At least one address in all. */
  | { kind: 'answer'; ipv6: readonly string[]; ipv4: readonly string[]; resolver: string; aliases: readonly string[] }
  | { kind: 'nodata' | 'nxdomain' }
  | DnsFailure

export interface DnsClient {
  /** `signal` aborts only queries to resolvers. */
  query<T extends DnsType>(name: string, type: T, deadline: Deadline, signal?: AbortSignal): Promise<DnsResult<T>>
  /** Asks resolvers for A and AAAA in parallel; one family suffices (see RESOLUTION_GRACE_MS). `signal` aborts it. */
  resolveAddresses(name: string, deadline: Deadline, signal?: AbortSignal): Promise<AddressResult>
}

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
const ZONE_WAY = { dnssec: false, recursion: false, bothCases: true }
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
    return askServers(addresses, name, type, { ...ZONE_WAY, retries, deadline, signal })
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
