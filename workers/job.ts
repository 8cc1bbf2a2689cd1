/** Requests of the supervisor to a worker, and the answers: plain data, so that they cross threads unchanged. */

import type { IdentifierType } from '../src/shared/protocol/identifier.ts'
import type { ProblemType } from '../src/shared/protocol/problem.ts'

type WorkerPoolErrorCode = 'full' | 'lost' | 'closed'

/** Says nothing about the target, so it is no ACME problem. Retry, or drop at shutdown (`closed`). */
export class WorkerPoolError extends Error {
  readonly code: WorkerPoolErrorCode
  readonly retryable = true

  constructor(code: WorkerPoolErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'WorkerPoolError'
    this.code = code
  }
}

/** A refusal is final, because a retry finds the same records. A failed look-up is retryable. */
export function judgedByCaa(
  verdict: Extract<ValidationVerdict, { ok: true }>,
  findings: readonly CaaFinding[],
): ValidationVerdict {
  const evidence = [...verdict.evidence, ...findings.flatMap((finding) => finding.evidence)]
  for (const finding of findings) {
    const { result } = finding
    if (result === 'forbidden')
      return { ok: false, problem: 'caa', detail: finding.detail, retryable: false, evidence, caa: result }
    if (result === 'failed')
      return { ok: false, problem: 'dns', detail: finding.detail, retryable: true, evidence, caa: result }
  }
  return { ...verdict, evidence, caa: findings.some(({ result }) => result === 'excepted') ? 'excepted' : 'permitted' }
}

/**
 * Settings of name resolution: the method's resolvers or `dns.resolvers`, overridden by `dns.zones`
 * (docs/decisions/dns-settings.md).
 */
export interface DnsSettings {
  /** `ip`, `ip:port` or `[v6]:port`; empty means the system's resolvers (/etc/resolv.conf). */
  resolvers: readonly string[]
  /**
   * The longest matching zone wins. It has resolvers, fixed addresses that need no query, or both:
   * then resolvers answer all but addresses.
   */
  zones: readonly { zone: string; resolvers?: readonly string[]; addresses?: readonly string[] }[]
  /** Limit of one look-up, including aliases and retries. */
  timeoutMs: number
  /** Number of repeats to silent servers. */
  retries: number
}

/** Common fields of the methods that are built in. */
interface MethodJob {
  /** A wildcard is without its `*.`. */
  identifier: { type: IdentifierType; value: string }
  /**
   * One bound for the whole attempt, look-ups, redirects and waits included; milliseconds from the start of the task.
   */
  timeoutMs: number
  /**
   * CIDR list. Validation connects to no address inside it, and asks no zone's own name server there. Resolvers are
   * exempt, as the operator's choice.
   */
  blockedNetworks: readonly string[]
  dns: DnsSettings
}

export interface Http01Job extends MethodJob {
  type: 'http-01'
  token: string
  keyAuthorization: string
  /** Port of the first request. Redirects to http may use it or 80. */
  port: number
  /** Redirects to https may use it or 443; absent means 443 only. */
  httpsPort?: number
  maxResponseBytes: number
  userAgent: string
}

/** A challenge that a validator module decides (workers/extension). */
export interface ExtensionJob {
  type: 'extension'
  challenge: {
    /** Name of the method on the wire. */
    type: string
    /** Without the `*.` of a wildcard. */
    identifier: { type: IdentifierType; value: string }
    wildcard: boolean
    token: string
    keyAuthorization: string
    accountUrl: string
    timeoutMs: number
  }
  /** Equals `challenge.timeoutMs`. */
  timeoutMs: number
}

export interface TlsAlpn01Job extends MethodJob {
  type: 'tls-alpn-01'
  /** SHA-256 of the key authorization, base64url. */
  keyAuthorizationDigest: string
  port: number
}

/** Common fields of the methods that look up TXT records. */
export interface DnsMethodJob extends MethodJob {
  /** How long after the start a missing record is looked up again; part of `timeoutMs`. */
  propagationWaitMs: number
  /** The resolvers must set the AD bit. */
  requireDnssec: boolean
  /** The zone's own name servers are asked, and must agree. */
  requireAuthoritative: boolean
  /** Port of those servers; absent means 53. */
  authoritativePort?: number
}

/** Common fields of dns-01 and dns-account-01. */
export interface DnsTxtJob extends DnsMethodJob {
  /** SHA-256 of the key authorization, base64url. */
  keyAuthorizationDigest: string
}

export interface Dns01Job extends DnsTxtJob {
  type: 'dns-01'
}

export interface DnsAccount01Job extends DnsTxtJob {
  type: 'dns-account-01'
  /** Label made from the account's URL (src/shared/protocol/challenge.ts). */
  accountLabel: string
  /** For the error. Absent in jobs of a perspective. */
  accountUrl?: string
}

export interface DnsPersist01Job extends DnsMethodJob {
  type: 'dns-persist-01'
  /** True for an order with `*.`, which `identifier` omits. */
  wildcard: boolean
  accountUrl: string
  /** Draft -02: the account's thumbprints, the current one first. */
  hashed?: { prefix: string; thumbprints: readonly string[] }
  issuerDomainNames: readonly string[]
  allowWildcardPolicy: boolean
  /** Whether parent names of the identifier are asked too. */
  allowSubdomainPolicy: boolean
  /** Fewest labels of a parent name to ask: as many as the registrable domain has, if known. Absent means 2. */
  leastLabelsAbove?: number
}

/** A check of CAA records (RFC 8659) for one account and several names. */
export interface CaaJob {
  subjects: readonly CaaSubject[]
  /** Issuer domain names of this service, lower case. */
  identities: readonly string[]
  accountUri: string
  /** Set for another service that judges the parameters of RFC 8657 itself. */
  issuerOnly?: boolean
  /** Zones where a failed look-up counts as "no records" (BR 3.2.2.8); lower case. */
  unreachableOk: readonly string[]
  /** One limit for all subjects together. */
  timeoutMs: number
  dns: DnsSettings
}

/** One DNS name of a certificate. */
export interface CaaSubject {
  /** Without `*.`. */
  name: string
  wildcard: boolean
  /** The method that proved control (RFC 8657 §4); absent without a proof. */
  method?: string
}

/** `excepted`: the look-up failed in a zone that the operator excepted. */
type CaaResult = 'permitted' | 'excepted' | 'forbidden' | 'failed'

/** `detail` may reach the client, so it holds no bytes of a record. */
export type CaaFinding = { evidence: EvidenceStep[] } & (
  | { result: 'permitted' | 'excepted' }
  | { result: 'forbidden' | 'failed'; detail: string }
)

/** Whether mail can reach these domains (RFC 5321 §5.1). */
export interface MailDomainJob {
  /** Lower case. */
  domains: readonly string[]
  /** One limit for all domains together. */
  timeoutMs: number
  dns: DnsSettings
}

/** `reason` may reach the client, so it holds no bytes of a record. `failed` is no verdict. */
export type MailDomainFinding = { result: 'accepts' } | { result: 'refused' | 'failed'; reason: string }

/** Methods that `task.ts` knows. */
type BuiltInMethodJob = Http01Job | TlsAlpn01Job | Dns01Job | DnsAccount01Job | DnsPersist01Job

/** With `caa`, a proof of control counts only if the CAA records permit the certificate. */
export type BuiltInJob = BuiltInMethodJob & { caa?: CaaJob }

export type ValidationJob = BuiltInJob | (ExtensionJob & { caa?: CaaJob })

/** One step of an attempt, for the log and the audit record; never shown to the client. */
export interface EvidenceStep {
  step: string
  [fact: string]: unknown
}

/** `detail` may reach the client, so it holds no bytes of the target's answer. */
export type ValidationVerdict = { caa?: CaaResult } & (
  | {
      ok: true
      evidence: EvidenceStep[]
      /** No check took place (`challenges.auto_accept`). */
      isAccepted?: true
      /** Seconds from now that the proof stays valid; absent without a limit in the records. */
      validForSeconds?: number
    }
  | { ok: false; problem: ProblemType; detail: string; retryable: boolean; evidence: EvidenceStep[] }
)
