/**
 * What a look-up comes to, and the client that does one: shared by the
 * client and by what it is made of.
 */

import type { Deadline } from '../deadline.ts'
import type { DnsFailure } from './ask.ts'
import type { DnsRecord, DnsType } from './message.ts'

/** What every definite answer carries, for evidence and for `require_dnssec`. */
export interface AnswerFacts {
  /**
   * `address:port` of the server that gave the last word (of all, comma-separated, for
   * zone servers that were asked).
   */
  resolver: string
  /**
   * AD bit of every response on the way (RFC 4035 §3.2.3); only as good as
   * the path to the resolver.
   */
  authenticated: boolean
  /** Aliases that were followed, in order. */
  aliases: readonly string[]
}

/** A record's `ttlSeconds` is no more than that of any alias on the way to it. */
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
  /** `signal` ends it early where resolvers are asked. */
  query<T extends DnsType>(name: string, type: T, deadline: Deadline, signal?: AbortSignal): Promise<DnsResult<T>>
  /**
   * A and AAAA side by side, from resolvers. One family is enough; see
   * RESOLUTION_GRACE_MS. `signal` ends it early.
   */
  resolveAddresses(name: string, deadline: Deadline, signal?: AbortSignal): Promise<AddressResult>
}
