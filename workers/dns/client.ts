/**
 * Name resolution for validation: resolvers in turn, retries, CNAMEs and zones, all within one deadline.
 *
 * Not c-ares: it hides the AD bit, its timeouts multiply, and it cannot ask other servers for one zone. Every result is
 * data; nothing a name server sends makes a function here throw. Reasons are written by us alone, so a client may see them.
 */

import { isIPv6 } from 'node:net'
import type { Deadline } from '../deadline.ts'
import type { DnsSettings } from '../job.ts'
import { type Exchange, exchangeTcp, exchangeUdp, type NameServer } from './exchange.ts'
import {
  buildQuery,
  type DnsQuery,
  type DnsRecord,
  type DnsResponse,
  type DnsType,
  isQueryableName,
} from './message.ts'
import { createSourceFinder, type NameSource, normalName } from './servers.ts'

export type { DnsData, DnsRecord, DnsType } from './message.ts'

/** What every definite answer carries, for evidence and for `require_dnssec`. */
interface AnswerFacts {
  /** `address:port` of the server that gave the last word; `configured` for a zone with fixed addresses. */
  resolver: string
  /** AD bit of every response on the way (RFC 4035 §3.2.3); only as good as the path to the resolver. */
  authenticated: boolean
  /** Aliases that were followed, in order. */
  aliases: readonly string[]
}

export type DnsResult<T extends DnsType> =
  | ({ kind: 'answer'; records: readonly DnsRecord<T>[] } & AnswerFacts)
  | ({ kind: 'nodata' | 'nxdomain' } & AnswerFacts)
  | { kind: 'failed'; reason: string; retryable: boolean }

export type AddressResult =
  /** At least one address in all. */
  | { kind: 'answer'; ipv6: readonly string[]; ipv4: readonly string[]; resolver: string; aliases: readonly string[] }
  | { kind: 'nodata' | 'nxdomain' }
  | { kind: 'failed'; reason: string; retryable: boolean }

export interface DnsClient {
  query<T extends DnsType>(name: string, type: T, deadline: Deadline): Promise<DnsResult<T>>
  /** A and AAAA side by side. One family is enough; see RESOLUTION_GRACE_MS. */
  resolveAddresses(name: string, deadline: Deadline): Promise<AddressResult>
}

/** Chains of honest zones are shorter than this; every link costs a query at worst. */
const MAX_ALIASES = 8
/** Times that the list of servers is gone through; each round waits twice as long as the one before. */
const MAX_ROUNDS = 3
/** First wait for one server: a quarter of what is there, so that the second and third server get their turn. */
const FIRST_WAIT_MS = { least: 50, most: 1500 }
/** Once one family has addresses, how long the other may still take: some servers never answer AAAA. */
const RESOLUTION_GRACE_MS = 1000
/** More addresses than that are noise for a single connection. */
const MAX_ADDRESSES = 16

export interface DnsClientOptions {
  /** Asks for DNSSEC records and the AD bit (RFC 6840 §5.7). */
  dnssec?: boolean
}

/** @throws RangeError for settings that name no usable resolver or address. */
export function createDnsClient(settings: DnsSettings, options: DnsClientOptions = {}): DnsClient {
  const dnssec = options.dnssec ?? false
  const sourceOf = createSourceFinder(settings)

  return {
    query(name, type, deadline) {
      const { signal } = new AbortController()
      return lookUp(normalName(name), type, { sourceOf, dnssec, deadline: deadline.atMost(settings.timeoutMs), signal })
    },

    async resolveAddresses(name, deadline) {
      const controller = new AbortController()
      const context = {
        sourceOf,
        dnssec,
        deadline: deadline.atMost(settings.timeoutMs),
        signal: controller.signal,
      }
      const v6 = lookUp(normalName(name), 'AAAA', context)
      const v4 = lookUp(normalName(name), 'A', context)
      const timer = await graceAfterFirstAnswer([v6, v4], () => controller.abort())
      const results = [await v6, await v4] as const
      clearTimeout(timer)
      return mergeFamilies(...results)
    },
  }
}

interface LookUp {
  sourceOf: (name: string) => NameSource
  dnssec: boolean
  deadline: Deadline
  signal: AbortSignal
}

/** Waits until one result has addresses or all are there; then starts the clock for the rest. */
async function graceAfterFirstAnswer(
  results: readonly Promise<DnsResult<'A' | 'AAAA'>>[],
  giveUp: () => void,
): Promise<NodeJS.Timeout> {
  const answered = results.map(async (result) => {
    if ((await result).kind !== 'answer') throw new Error('no addresses')
  })
  // Rejects when none has addresses: then both are finished and there is nothing left to hurry.
  await Promise.any(answered).catch(() => {})
  return setTimeout(giveUp, RESOLUTION_GRACE_MS)
}

function mergeFamilies(v6: DnsResult<'AAAA'>, v4: DnsResult<'A'>): AddressResult {
  const first = v4.kind === 'answer' ? v4 : v6.kind === 'answer' ? v6 : undefined
  if (first) {
    return {
      kind: 'answer',
      ipv6: addressesOf(v6),
      ipv4: addressesOf(v4),
      resolver: first.resolver,
      aliases: first.aliases,
    }
  }
  // No addresses is only certain when both families were answered.
  const failed = [v4, v6].find((result) => result.kind === 'failed')
  if (failed?.kind === 'failed') return failed
  return { kind: v4.kind === 'nxdomain' && v6.kind === 'nxdomain' ? 'nxdomain' : 'nodata' }
}

function addressesOf(result: DnsResult<'A' | 'AAAA'>): string[] {
  return result.kind === 'answer' ? result.records.map(({ data }) => data).slice(0, MAX_ADDRESSES) : []
}

/** Follows aliases (RFC 1034 §3.6.2) from `name` until an answer is final. */
async function lookUp<T extends DnsType>(name: string, type: T, context: LookUp): Promise<DnsResult<T>> {
  const aliases: string[] = []
  let authenticated = true
  let current = name

  for (;;) {
    if (!isQueryableName(current))
      return { kind: 'failed', reason: 'not a name that can be looked up', retryable: false }
    // A DS record stands in the zone above the one it is about (RFC 4035 §3.1.4.1).
    const source = context.sourceOf(type === 'DS' ? current.slice(current.indexOf('.') + 1) : current)
    if (source.kind === 'fixed') return fixedAnswer(source, type, aliases)

    const asked = await askServers(source.servers, current, type, context)
    if (asked.kind === 'failed') return asked
    authenticated &&= asked.response.authenticated
    const facts: AnswerFacts = { resolver: serverText(asked.server), authenticated, aliases }

    const walk = walkAliases(current, asked.response, (alias) => context.sourceOf(alias) === source)
    for (const alias of walk.aliases) {
      if (alias === name || aliases.includes(alias) || aliases.length >= MAX_ALIASES) {
        return { kind: 'failed', reason: 'aliases (CNAME) form a loop or too long a chain', retryable: true }
      }
      aliases.push(alias)
    }
    current = walk.end

    if (walk.records.length > 0) return { kind: 'answer', records: walk.records as DnsRecord<T>[], ...facts }
    if (walk.isOver) return { kind: asked.response.rcode === 'NXDOMAIN' ? 'nxdomain' : 'nodata', ...facts }
  }
}

interface AliasWalk {
  aliases: string[]
  /** The name the chain ends at. */
  end: string
  records: DnsRecord[]
  /** Nothing more can be learned by asking for `end`. */
  isOver: boolean
}

/**
 * Reads one response: the chain from `name` and the records at its end. A link into another zone's servers ends the
 * walk, because what these servers say about that name does not count.
 */
function walkAliases(name: string, response: DnsResponse, isSameSource: (alias: string) => boolean): AliasWalk {
  const aliases: string[] = []
  let end = name
  while (aliases.length <= MAX_ALIASES) {
    const records = response.answers.flatMap((answer) =>
      'record' in answer && answer.owner === end ? [answer.record] : [],
    )
    if (records.length > 0) return { aliases, end, records, isOver: true }

    const link = response.answers.find((answer) => 'cname' in answer && answer.owner === end)
    if (!link || !('cname' in link)) break
    aliases.push(link.cname)
    end = link.cname
    if (!isSameSource(end)) return { aliases, end, records: [], isOver: false }
  }
  // A resolver that followed the chain says so with NXDOMAIN or the zone's SOA; an authoritative server may stop half way.
  const isOver = aliases.length === 0 || response.rcode === 'NXDOMAIN' || response.hasSoa
  return { aliases, end, records: [], isOver }
}

function fixedAnswer<T extends DnsType>(
  source: Extract<NameSource, { kind: 'fixed' }>,
  type: T,
  aliases: readonly string[],
): DnsResult<T> {
  const facts: AnswerFacts = { resolver: 'configured', authenticated: false, aliases }
  const addresses = type === 'A' ? source.ipv4 : type === 'AAAA' ? source.ipv6 : []
  if (addresses.length === 0) return { kind: 'nodata', ...facts }
  return { kind: 'answer', records: addresses.map((data) => ({ ttlSeconds: 0, data })) as DnsRecord<T>[], ...facts }
}

type Asked =
  | { kind: 'response'; response: DnsResponse; server: NameServer }
  | { kind: 'failed'; reason: string; retryable: boolean }

/** NOERROR and NXDOMAIN are answers; after anything else the next server may know better. */
async function askServers(
  servers: readonly NameServer[],
  name: string,
  type: DnsType,
  context: LookUp,
): Promise<Asked> {
  let reason = 'no answer in time'
  let waitMs = Math.min(FIRST_WAIT_MS.most, Math.max(FIRST_WAIT_MS.least, context.deadline.remainingMs() / 4))
  for (let round = 0; round < MAX_ROUNDS; round++, waitMs *= 2) {
    for (const server of servers) {
      if (context.deadline.remainingMs() === 0 || context.signal.aborted)
        return { kind: 'failed', reason, retryable: true }
      const exchange = await ask(server, name, type, waitMs, context)
      if (exchange.kind === 'response') {
        const { rcode } = exchange.response
        if (rcode === 'NOERROR' || rcode === 'NXDOMAIN') return { ...exchange, server }
        reason = `the resolver answered ${rcode}`
      } else if (exchange.kind === 'failed') {
        reason = exchange.reason
      }
    }
  }
  return { kind: 'failed', reason, retryable: true }
}

/** One server: UDP, TCP when UDP will not do, and once more without EDNS for a server that does not know it (RFC 6891 §7). */
async function ask(
  server: NameServer,
  name: string,
  type: DnsType,
  waitMs: number,
  context: LookUp,
): Promise<Exchange> {
  const withEdns = await askOver(
    server,
    buildQuery(name, type, { edns: true, dnssec: context.dnssec }),
    waitMs,
    context,
  )
  if (withEdns.kind !== 'response' || !['FORMERR', 'NOTIMP', 'RCODE16'].includes(withEdns.response.rcode))
    return withEdns
  return askOver(server, buildQuery(name, type, { edns: false, dnssec: false }), waitMs, context)
}

async function askOver(server: NameServer, query: DnsQuery, waitMs: number, context: LookUp): Promise<Exchange> {
  const left = () => Math.min(waitMs, context.deadline.remainingMs())
  const overUdp = await exchangeUdp(server, query, left(), context.signal)
  return overUdp.kind === 'use-tcp' ? exchangeTcp(server, query, left(), context.signal) : overUdp
}

function serverText({ address, port }: NameServer): string {
  return isIPv6(address) ? `[${address}]:${port}` : `${address}:${port}`
}
