/**
 * What the front asks of a worker and what it gets back: plain data, so
 * that it crosses threads unchanged.
 */

import type { IdentifierType } from '../src/shared/protocol/identifier.ts'
import type { ProblemType } from '../src/shared/protocol/problem.ts'

/**
 * Settings of name resolution: the method's resolvers or `dns.resolvers`, overridden by `dns.zones`
 * (docs/decisions/dns-settings.md).
 */
export interface DnsSettings {
  /** `ip`, `ip:port` or `[v6]:port`; empty means the system's resolvers (/etc/resolv.conf). */
  resolvers: readonly string[]
  /**
   * Longest matching zone wins. A zone has resolvers of its own, or fixed addresses that answer
   * without a query, or both: then the resolvers are asked for everything but addresses.
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
  /**
   * One bound for the whole attempt, redirects and look-ups included;
   * milliseconds from the start of the task.
   */
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

export interface TlsAlpn01Job {
  type: 'tls-alpn-01'
  /** Never a wildcard. */
  identifier: { type: IdentifierType; value: string }
  /** SHA-256 of the key authorization, base64url. */
  keyAuthorizationDigest: string
  /**
   * One bound for the whole attempt, look-ups and all addresses included;
   * milliseconds from the start of the task.
   */
  timeoutMs: number
  port: number
  /** CIDR list; an address inside it is never connected to. */
  blockedNetworks: readonly string[]
  dns: DnsSettings
}

/** What the methods that look TXT records up have in common. */
export interface DnsMethodJob {
  /** A DNS name; for a wildcard the name without `*.`. */
  identifier: { type: IdentifierType; value: string }
  /**
   * One bound for the whole attempt, waits and aliases included;
   * milliseconds from the start of the task.
   */
  timeoutMs: number
  /**
   * How long after the start a record that is not there yet is looked for
   * again; part of `timeoutMs`.
   */
  propagationWaitMs: number
  /** The resolvers have to set the AD bit. */
  requireDnssec: boolean
  /** The zone's own name servers are asked, and have to agree. */
  requireAuthoritative: boolean
  /** Of those servers; absent means 53. */
  authoritativePort?: number
  /**
   * CIDR list; a zone's own name server inside it is not asked. Resolvers
   * are the operator's choice.
   */
  blockedNetworks: readonly string[]
  dns: DnsSettings
}

/** What dns-01 and dns-account-01 have in common. */
export interface DnsTxtJob extends DnsMethodJob {
  /** SHA-256 of the key authorization, base64url. */
  keyAuthorizationDigest: string
}

export interface Dns01Job extends DnsTxtJob {
  type: 'dns-01'
}

export interface DnsAccount01Job extends DnsTxtJob {
  type: 'dns-account-01'
  /** Of the account's URL (src/shared/protocol/account-label.ts). */
  accountLabel: string
  /** For the error; a perspective does not know it. */
  accountUrl?: string
}

export interface DnsPersist01Job extends DnsMethodJob {
  type: 'dns-persist-01'
  /** Ordered with `*.`, which `identifier` does not show. */
  wildcard: boolean
  accountUrl: string
  /** Draft -02: the account's thumbprints, the current one first. */
  hashed?: { prefix: string; thumbprints: readonly string[] }
  issuerDomainNames: readonly string[]
  allowWildcardPolicy: boolean
  /** Names above the identifier are asked too. */
  allowSubdomainPolicy: boolean
  /**
   * Names above with fewer labels are not asked: those of the registrable domain, where the
   * caller knows it; absent means 2.
   */
  leastLabelsAbove?: number
}

/**
 * A check of CAA records (RFC 8659): the account, the names, and the names
 * of this CA in CAA records.
 */
export interface CaaJob {
  subjects: readonly CaaSubject[]
  /** Issuer domain names of this service, lower case. */
  identities: readonly string[]
  accountUri: string
  /** For another service, which judges the parameters of RFC 8657 itself. */
  issuerOnly?: boolean
  /** Zones where a look-up that fails counts as "no records" (BR 3.2.2.8); lower case. */
  unreachableOk: readonly string[]
  /** One bound for all subjects together. */
  timeoutMs: number
  dns: DnsSettings
}

/** One DNS name of a certificate. */
export interface CaaSubject {
  /** Without `*.`. */
  name: string
  wildcard: boolean
  /** The method that showed control (RFC 8657 §4); absent where none did. */
  method?: string
}

/** `excepted`: the records could not be looked up, in a zone where that is no obstacle. */
export type CaaResult = 'permitted' | 'excepted' | 'forbidden' | 'failed'

/** `detail` may reach the client: it never holds bytes of a record. */
export type CaaFinding = { evidence: EvidenceStep[] } & (
  | { result: 'permitted' | 'excepted' }
  | { result: 'forbidden' | 'failed'; detail: string }
)

/** Whether mail can reach these domains (RFC 5321 §5.1). */
export interface MailDomainJob {
  /** Lower case. */
  domains: readonly string[]
  /** One bound for all domains together. */
  timeoutMs: number
  dns: DnsSettings
}

/**
 * `reason` may reach the client: it never holds bytes of a record. `failed`: nothing was learned.
 */
export type MailDomainFinding = { result: 'accepts' } | { result: 'refused' | 'failed'; reason: string }

/** What `validate.ts` does itself. */
type BuiltInMethodJob = Http01Job | TlsAlpn01Job | Dns01Job | DnsAccount01Job | DnsPersist01Job

/** With `caa`, a proof of control counts only when the records permit the certificate too. */
export type BuiltInJob = BuiltInMethodJob & { caa?: CaaJob }

export type ValidationJob = BuiltInJob | (ExtensionJob & { caa?: CaaJob })

/** One step of an attempt, for the log and the audit record; never shown to the client. */
export interface EvidenceStep {
  step: string
  [fact: string]: unknown
}

/** `detail` may reach the client: it never holds bytes of the target's answer. */
export type ValidationVerdict = { caa?: CaaResult } & (
  | {
      ok: true
      evidence: EvidenceStep[]
      /** Nothing was looked at (`challenges.auto_accept`). */
      isAccepted?: true
      /** How long the proof is good for, where what was found bounds it; seconds from now. */
      validForSeconds?: number
    }
  | { ok: false; problem: ProblemType; detail: string; retryable: boolean; evidence: EvidenceStep[] }
)
