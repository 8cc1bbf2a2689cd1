/** What the front asks of a worker and what it gets back: plain data, so that it crosses threads unchanged. */

import type { IdentifierType } from '../src/protocol/identifier.ts'
import type { ProblemType } from '../src/protocol/problem.ts'

/** Settings of name resolution: `dns.resolvers`, overridden for a zone by `dns.zones` (decisions 24a). */
export interface DnsSettings {
  /** `ip`, `ip:port` or `[v6]:port`; empty means the system's resolvers (/etc/resolv.conf). */
  resolvers: readonly string[]
  /** Longest matching zone wins. A zone has resolvers of its own, or fixed addresses that answer without a query. */
  zones: readonly { zone: string; resolvers?: readonly string[]; addresses?: readonly string[] }[]
  timeoutMs: number
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

/** A challenge that a validator module decides (workers/extension). */
export interface ExtensionJob {
  type: 'extension'
  challenge: {
    /** Of the method, on the wire. */
    type: string
    /** Without the `*.` of a wildcard. */
    identifier: { type: IdentifierType; value: string }
    wildcard: boolean
    token: string
    keyAuthorization: string
    accountUrl: string
    timeoutMs: number
  }
  /** The same. */
  timeoutMs: number
}

/** What `validate.ts` does itself. */
export type BuiltInJob = Http01Job

export type ValidationJob = BuiltInJob | ExtensionJob

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
