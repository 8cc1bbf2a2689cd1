/**
 * Name resolution for validation: servers for a name, aliases and addresses, all within one deadline.
 *
 * c-ares does not fit: it hides the AD bit, its timeouts multiply, and it cannot use other servers for one zone. No
 * input from a name server makes a function here throw. Reasons contain only our own words, so a client may see them.
 */

import type { AddressPolicy } from '../address-policy.ts'
import { allWithGrace, type Deadline } from '../deadline.ts'
import type { DnsSettings } from '../job.ts'
import {
  type AddressResult,
  type Answered,
  type AnswerFacts,
  askAuthorities,
  askServers,
  type DnsClient,
  type DnsFailure,
  type DnsResult,
} from './ask.ts'
import { type DnsRecord, type DnsResponse, type DnsType, isQueryableName } from './dns-message.ts'
import { createSourceFinder, type NameSource, normalName } from './servers.ts'

/** Honest zones have shorter chains. Each link costs a query at worst. */
const MAX_ALIASES = 8
/** Time for the other family after the first addresses: some servers never answer AAAA. */
const RESOLUTION_GRACE_MS = 1000
/** One connection does not benefit from more addresses. */
const MAX_ADDRESSES = 16

export interface DnsClientOptions {
  /** Asks for DNSSEC records and the AD bit (RFC 6840 §5.7). */
  dnssec?: boolean
  /** `query` asks the zone's name servers instead of a resolver. They never set the AD bit. */
  authoritative?: {
    /** Needed because the zone chooses the addresses of its servers. */
    policy: AddressPolicy
    /** 53 when absent. */
    port?: number
  }
}

/** @throws RangeError for settings that name no usable resolver or address. */
export function createDnsClient(settings: DnsSettings, options: DnsClientOptions = {}): DnsClient {
  const sourceOf = createSourceFinder(settings)
  const { retries } = settings
  const boundOf = (deadline: Deadline) => deadline.atMost(settings.timeoutMs)

  const throughResolvers = (deadline: Deadline, signal: () => AbortSignal, bothCases = true): Ways => ({
    ask: (name, type) => {
      // A DS record belongs to the parent zone (RFC 4035 §3.1.4.1).
      const source = sourceOf(type === 'DS' ? name.slice(name.indexOf('.') + 1) : name)
      const { dnssec = false } = options
      if (isAnsweredHere(source, type)) return Promise.resolve(fixedAnswer(source, name, type))
      const way = { dnssec, recursion: true, bothCases, retries, deadline }
      return askServers(source.servers, name, type, { ...way, signal: signal() })
    },
    isSameSource: (name, alias) => sourceOf(name) === sourceOf(alias),
  })

  const resolver: DnsClient = {
    query(name, type, deadline, signal) {
      const ways = throughResolvers(boundOf(deadline), () => signal ?? new AbortController().signal)
      return lookUp(normalName(name), type, ways)
    },

    async resolveAddresses(name, deadline, signal) {
      const bound = boundOf(deadline)
      const families = (bothCases: boolean) =>
        bothFamilies(normalName(name), (signalOf) => throughResolvers(bound, signalOf, bothCases), signal)
      const found = await families(false)
      // Most names have only one family, so a missing family alone causes no repeat.
      return found.kind === 'answer' || found.kind === 'failed' ? found : families(true)
    },
  }

  const { authoritative } = options
  if (!authoritative) return resolver
  const { policy, port = 53 } = authoritative
  return {
    ...resolver,
    query(name, type, deadline) {
      const bound = boundOf(deadline)
      return lookUp(normalName(name), type, {
        ask: (current) => askAuthorities(current, type, bound, { resolver, policy, port, retries }),
        // Each link may lead to a zone with other servers.
        isSameSource: () => false,
      })
    },
  }
}

async function bothFamilies(
  name: string,
  waysWith: (signal: () => AbortSignal) => Ways,
  signal: AbortSignal | undefined,
): Promise<AddressResult> {
  // Created on first use: fixed addresses need no controller, and one costs 10 µs.
  let made: AbortController | undefined
  const controller = () => {
    made ??= new AbortController()
    return made
  }
  const cancel = () => controller().abort()
  signal?.addEventListener('abort', cancel)
  const ways = waysWith(() => controller().signal)
  const families = [lookUp(name, 'AAAA', ways), lookUp(name, 'A', ways)] as const
  await allWithGrace<DnsResult<'A' | 'AAAA'>>(families, ({ kind }) => kind === 'answer', RESOLUTION_GRACE_MS, cancel)
  signal?.removeEventListener('abort', cancel)
  return mergeFamilies(await families[0], await families[1])
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
  // "No addresses" is certain only after answers for both families.
  const failed = [v4, v6].find((result) => result.kind === 'failed')
  if (failed?.kind === 'failed') return failed
  return { kind: v4.kind === 'nxdomain' && v6.kind === 'nxdomain' ? 'nxdomain' : 'nodata' }
}

function addressesOf(result: DnsResult<'A' | 'AAAA'>): string[] {
  return result.kind === 'answer' ? result.records.map(({ data }) => data).slice(0, MAX_ADDRESSES) : []
}

/** How a look-up asks its questions. */
interface Ways {
  ask(name: string, type: DnsType): Promise<Answered | DnsFailure>
  /** Whether answers about `alias` from the servers of `name` count. */
  isSameSource(name: string, alias: string): boolean
}

/** Follows aliases (RFC 1034 §3.6.2) from `name` until an answer is final. */
async function lookUp<T extends DnsType>(name: string, type: T, ways: Ways): Promise<DnsResult<T>> {
  const aliases: string[] = []
  let authenticated = true
  let ttlSeconds = Number.POSITIVE_INFINITY
  let current = name

  for (;;) {
    if (!isQueryableName(current))
      return { kind: 'failed', reason: 'not a name that can be looked up', retryable: false, asked: [] }
    const asked = await ways.ask(current, type)
    if (asked.kind === 'failed') return asked
    authenticated &&= asked.response.authenticated
    const facts: AnswerFacts = { resolver: asked.server, authenticated, aliases }

    const asking = current
    if (answersAnotherName(asking, asked.response)) {
      const reason = 'the name server answered for another name'
      return { kind: 'failed', reason, retryable: true, asked: [asked.server] }
    }

    const walk = walkAliases(asking, asked.response, (alias) => ways.isSameSource(asking, alias))
    for (const alias of walk.aliases) {
      if (alias === name || aliases.includes(alias) || aliases.length >= MAX_ALIASES) {
        const reason = 'aliases (CNAME) form a loop or too long a chain'
        return { kind: 'failed', reason, retryable: true, asked: [asked.server] }
      }
      aliases.push(alias)
    }
    current = walk.end
    ttlSeconds = Math.min(ttlSeconds, walk.ttlSeconds)

    if (walk.records.length > 0) {
      const records = walk.records.map((record) => ({
        ...record,
        ttlSeconds: Math.min(record.ttlSeconds, ttlSeconds),
      }))
      return { kind: 'answer', records: records as DnsRecord<T>[], ...facts }
    }
    if (walk.isOver) return { kind: asked.response.rcode === 'NXDOMAIN' ? 'nxdomain' : 'nodata', ...facts }
  }
}

/** Records for other names only. Such an answer does not mean "no such record". */
function answersAnotherName(name: string, { answers }: DnsResponse): boolean {
  return answers.length > 0 && !answers.some(({ owner }) => owner === name)
}

interface AliasWalk {
  aliases: string[]
  /** The lowest TTL of the aliases. */
  ttlSeconds: number
  /** The last name of the chain. */
  end: string
  records: DnsRecord[]
  /** Asking for `end` would give nothing more. */
  isOver: boolean
}

/**
 * Reads one response: the chain from `name`, and the records at its end. The walk ends where
 * another zone's servers begin, because these servers have no say there.
 */
function walkAliases(name: string, response: DnsResponse, isSameSource: (alias: string) => boolean): AliasWalk {
  const aliases: string[] = []
  let ttlSeconds = Number.POSITIVE_INFINITY
  let end = name
  while (aliases.length <= MAX_ALIASES) {
    const records = response.answers.flatMap((answer) =>
      'record' in answer && answer.owner === end ? [answer.record] : [],
    )
    if (records.length > 0) return { aliases, ttlSeconds, end, records, isOver: true }

    const link = response.answers.find((answer) => 'cname' in answer && answer.owner === end)
    if (!link || !('cname' in link)) break
    aliases.push(link.cname)
    ttlSeconds = Math.min(ttlSeconds, link.ttlSeconds)
    end = link.cname
    if (!isSameSource(end)) return { aliases, ttlSeconds, end, records: [], isOver: false }
  }
  // A resolver that followed the chain adds NXDOMAIN or the zone's SOA. An authoritative server may stop in the middle.
  const isOver = aliases.length === 0 || response.rcode === 'NXDOMAIN' || response.hasSoa
  return { aliases, ttlSeconds, end, records: [], isOver }
}

/** Fixed addresses need no query, and a zone without resolvers has no other records. */
function isAnsweredHere({ fixed, servers }: NameSource, type: DnsType): boolean {
  return fixed !== undefined && (type === 'A' || type === 'AAAA' || servers.length === 0)
}

/** Builds the response of a server with the configured addresses. */
function fixedAnswer({ fixed }: NameSource, name: string, type: DnsType): Answered {
  const addresses = (type === 'A' ? fixed?.ipv4 : type === 'AAAA' ? fixed?.ipv6 : undefined) ?? []
  const response: DnsResponse = {
    rcode: 'NOERROR',
    truncated: false,
    authenticated: false,
    authoritative: true,
    isReferral: false,
    hasSoa: false,
    answers: addresses.map((data) => ({ owner: name, record: { ttlSeconds: 0, data } })),
  }
  return { kind: 'response', response, server: 'configured' }
}
