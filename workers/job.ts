/** What the front asks of a worker and what it gets back: plain data, so that it crosses threads unchanged. */

import type { IdentifierType } from '../src/protocol/identifier.ts'
import type { ProblemType } from '../src/protocol/problem.ts'

/** Settings of name resolution: the method's resolvers or `dns.resolvers`, overridden by `dns.zones` (decisions 24a). */
export interface DnsSettings {
  /** `ip`, `ip:port` or `[v6]:port`; empty means the system's resolvers (/etc/resolv.conf). */
  resolvers: readonly string[]
  /**
   * Longest matching zone wins. A zone has resolvers of its own, or fixed addresses that answer without a query, or both:
   * then the resolvers are asked for everything but addresses.
   */
  zones: readonly { zone: string; resolvers?: readonly string[]; addresses?: readonly string[] }[]
  /** Bound of one look-up, with its aliases and retries. */
  timeoutMs: number
  /** How many times servers that stay silent are asked again. */
  retries: number
}

export interface Http01Job {
  type: 'http-01'
  identifier: { type: IdentifierType; value: string }
  token: string
  keyAuthorization: string
  /** One bound for the whole attempt, redirects and look-ups included; milliseconds from the start of the task. */
  timeoutMs: number
  /** Of the first request, and allowed in redirects to http beside 80. */
  port: number
  /** Allowed in redirects to https beside 443; absent means 443 only. */
  httpsPort?: number
  maxResponseBytes: number
  /** CIDR list; an address inside it is never connected to, on any hop. */
  blockedNetworks: readonly string[]
  userAgent: string
  dns: DnsSettings
}

export interface DnsPersist01Job {
  type: 'dns-persist-01'
  identifier: { type: IdentifierType; value: string }
  /** Ordered with `*.`, which `identifier` does not show. */
  wildcard: boolean
  accountUrl: string
  /** Draft -02: the account's thumbprints, the current one first. */
  hashed?: { prefix: string; thumbprints: readonly string[] }
  issuerDomainNames: readonly string[]
  allowWildcardPolicy: boolean
  /** Names above the identifier are asked too. */
  allowSubdomainPolicy: boolean
  /** One bound for the whole attempt. */
  timeoutMs: number
  requireDnssec: boolean
  dns: DnsSettings
}

export type ValidationJob = Http01Job | DnsPersist01Job

/** One step of an attempt, for the log and the audit record; never shown to the client. */
export interface EvidenceStep {
  step: string
  [fact: string]: unknown
}

/** `detail` may reach the client: it never holds bytes of the target's answer. */
export type ValidationVerdict =
  | {
      ok: true
      evidence: EvidenceStep[]
      /** How long the proof is good for, where what was found bounds it; seconds from now. */
      validForSeconds?: number
    }
  | { ok: false; problem: ProblemType; detail: string; retryable: boolean; evidence: EvidenceStep[] }
