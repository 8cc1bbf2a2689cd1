/** Results of a look-up, and the interface of the client. */

import type { Deadline } from '../deadline.ts'
import type { DnsFailure } from './ask.ts'
import type { DnsRecord, DnsType } from './dns-message.ts'

/** Facts of every definite answer, for evidence and for `require_dnssec`. */
export interface AnswerFacts {
  /**
   * `address:port` of the server with the final answer. For zone servers, of all that answered,
   * comma-separated.
   */
  resolver: string
  /**
   * True when every response had the AD bit (RFC 4035 §3.2.3). It is only as safe as the path to
   * the resolver.
   */
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
  /**
   * Asks resolvers for A and AAAA in parallel; one family suffices (see RESOLUTION_GRACE_MS).
   * `signal` aborts it.
   */
  resolveAddresses(name: string, deadline: Deadline, signal?: AbortSignal): Promise<AddressResult>
}
