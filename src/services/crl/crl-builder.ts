/**
 * Keeps certificate revocation lists current: which lists there are, and when one is due. Each is built by itself
 * (crl-build.ts); one that fails is tried again after a pause, and delays no other.
 */

import type { CaBackend } from '../../ca/backend.ts'
import { COMPLETE, crlName, issuerKeyOf, issuerKeyOfCertificate } from '../../domain/crl-scope.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import type { CertificateStore } from '../../store/certificate-store.ts'
import type { CrlPart, CrlScope, CrlState, CrlStore } from '../../store/crl-store.ts'
import { Abandoned, CrlBuild, type Issuer, type ListParts, type ListPolicy, leftListBefore } from './crl-build.ts'

export interface CrlPolicy extends ListPolicy {
  /** Parts for new certificates; 1 is a single list. */
  shards: number
  /** Whether a complete list stands beside the parts. */
  complete: boolean
  /** Parts of an earlier count are built until so many days after its last use. */
  maxValidityDays: number
}

export interface CrlBuilt {
  name: string
  issuerId: string
  number: bigint
  entries: number
  bytes: number
  seconds: number
}

export interface CrlEvents {
  built(crl: CrlBuilt): void
  failed(name: string, error: unknown): void
  /** So many certificates stand under two certificates of the issuer, and once on the list; at most once a round. */
  duplicates(name: string, count: number): void
}

export interface CrlBuilderParts extends Pick<ListParts, 'store' | 'encode' | 'requireCompared' | 'isStopping'> {
  certificates: Pick<CertificateStore, 'saveIssuer'>
  ca: CaBackend
  /** The newest number that the signer has signed for a list; undefined when that is not known. */
  newestSigned(issuer: Issuer, part: CrlPart): bigint | undefined
  /** The last time the schedule was due. */
  scheduledAt(): Date | undefined
  events: CrlEvents
}

const FIRST_RETRY_MS = 1_000
const LONGEST_RETRY_MS = 60_000
const SHARDING_NOTE_MS = 3_600_000

interface Pause {
  until: number
  failures: number
}

/** A list is replaced after this share of its lifetime, whatever the schedule. */
const LIFETIME_SHARE = 0.75

export class CrlBuilder {
  readonly #parts: CrlBuilderParts
  readonly #listParts: ListParts
  readonly #store: CrlStore
  readonly #ca: CaBackend
  readonly #events: CrlEvents
  readonly #policy: CrlPolicy
  readonly #pauses = new Map<string, Pause>()
  readonly #savedIssuers = new Set<string>()
  /** Issuers and counts of parts for which lists of other counts were deleted. */
  readonly #retired = new Set<string>()
  #areDuplicatesReported = false
  #shardingNotedAt = Number.NEGATIVE_INFINITY

  constructor(parts: CrlBuilderParts, policy: CrlPolicy) {
    this.#parts = parts
    this.#listParts = { ...parts, onDuplicates: (name, count) => this.#reportDuplicates(name, count) }
    this.#store = parts.store
    this.#ca = parts.ca
    this.#events = parts.events
    this.#policy = policy
  }

  /**
   * Builds the lists that are due.
   * @returns how many were published
   * @throws database errors; other failures are reported as events and tried again
   */
  async round(): Promise<number> {
    let published = 0
    this.#areDuplicatesReported = false
    const counts = await this.#shardings()
    const parts = partsOf(counts)
    for (const issuer of await this.#issuers()) {
      const { issuerKey, fingerprints } = issuer
      await this.#retire(issuerKey, counts)
      const states = await this.#store.states(issuerKey, parts, fingerprints)
      for (const part of parts.filter(
        (part, at) => this.#isDue(states[at]) || this.#isBelow(issuer, part, states[at]),
      )) {
        if (this.#parts.isStopping()) return published
        if (!this.#isPaused(issuer, part)) published += await this.#attempt(issuer, { issuerKey, ...part })
      }
    }
    return published
  }

  /** Once for each change, because a round is every second. */
  async #retire(issuerKey: Buffer, counts: readonly number[]): Promise<void> {
    const key = `${issuerKey.toString('hex')} ${counts.join()}`
    if (this.#retired.has(key)) return
    await this.#store.retire(issuerKey, counts)
    this.#retired.add(key)
  }

  /**
   * No later list has a certificate that had expired and was revoked before this. It has been on one since (RFC 5280
   * §3.3). Undefined while an issuer or one of its lists is missing.
   */
  async leftBefore(): Promise<Date | undefined> {
    const parts = partsOf(await this.#shardings())
    const updates: number[] = []
    for (const { issuerKey, fingerprints } of await this.#issuers()) {
      const states = await this.#store.states(issuerKey, parts, fingerprints)
      updates.push(...states.map(({ published }) => published?.thisUpdate.getTime() ?? Number.NEGATIVE_INFINITY))
      updates.push(...states.map(({ slowNow }) => slowNow.getTime()))
    }
    const oldest = Math.min(...updates)
    return Number.isFinite(oldest) ? leftListBefore(new Date(oldest), this.#policy) : undefined
  }

  async #issuers(): Promise<Issuer[]> {
    const current = this.#ca.issuers()
    for (const { certificate, chain } of current) {
      const fingerprint = fingerprintSha256(certificate)
      if (this.#savedIssuers.has(fingerprint)) continue
      await this.#parts.certificates.saveIssuer(Buffer.from(fingerprint, 'hex'), certificate, chain)
      this.#savedIssuers.add(fingerprint)
    }
    const known = (await this.#store.issuerCertificates()).map(({ fingerprint, certificate }) => ({
      fingerprint,
      key: issuerKeyOfCertificate(parseCertificate(certificate).tbs),
    }))
    const found = new Map<string, Issuer>()
    for (const issuer of current) {
      const issuerKey = issuerKeyOf(issuer.nameDer, issuer.keyIdentifier)
      const fingerprints = known.flatMap(({ fingerprint, key }) => (key.equals(issuerKey) ? [fingerprint] : []))
      const id = issuerKey.toString('hex')
      if (!found.has(id)) found.set(id, { ...issuer, issuerKey, fingerprints })
    }
    return [...found.values()]
  }

  /** The counts of parts that have lists; 1 is the complete list, which certificates issued before `crl.shards` name. */
  async #shardings(): Promise<number[]> {
    const { shards, complete, maxValidityDays } = this.#policy
    if (performance.now() - this.#shardingNotedAt > SHARDING_NOTE_MS) {
      await this.#store.useShards(shards)
      this.#shardingNotedAt = performance.now()
    }
    const used = await this.#store.shardings(maxValidityDays)
    return complete ? [...new Set([COMPLETE.shards, ...used])] : used
  }

  #isPaused({ id }: Issuer, part: CrlPart): boolean {
    return (this.#pauses.get(crlName(id, part))?.until ?? 0) > performance.now()
  }

  #isDue(state: CrlState | undefined): boolean {
    if (!state) return false
    const { published, missing, isRequested, now } = state
    if (!published || published.isAhead || missing > 0 || isRequested) return true
    const scheduledAt = this.#parts.scheduledAt()
    // One of a clock that was ahead would be due after each list.
    if (scheduledAt && scheduledAt <= now && published.startedAt < scheduledAt) return true
    const ageMs = now.getTime() - published.thisUpdate.getTime()
    if (this.#policy.intervalMs !== undefined && ageMs >= this.#policy.intervalMs) return true
    return ageMs >= (published.nextUpdate.getTime() - published.thisUpdate.getTime()) * LIFETIME_SHARE
  }

  /** A list of a higher number was signed, and is not here: relying parties may have it. */
  #isBelow(issuer: Issuer, part: CrlPart, state: CrlState | undefined): boolean {
    const signed = this.#parts.newestSigned(issuer, part)
    return signed !== undefined && (state?.published?.number ?? signed) < signed
  }

  async #attempt(issuer: Issuer, scope: CrlScope): Promise<number> {
    const name = crlName(issuer.id, scope)
    const startedAt = performance.now()
    try {
      const built = await new CrlBuild(this.#listParts, this.#policy, issuer, scope).run()
      if (!built) return 0
      const seconds = (performance.now() - startedAt) / 1000
      // A pause as long as the build: lists take at most half of the time.
      this.#pauses.set(name, { until: performance.now() + seconds * 1000, failures: 0 })
      this.#events.built({ ...built, name, seconds })
      return 1
    } catch (error) {
      if (error instanceof Abandoned) return 0
      const failures = (this.#pauses.get(name)?.failures ?? 0) + 1
      const waitMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(failures - 1, 10))
      this.#pauses.set(name, { until: performance.now() + waitMs, failures })
      this.#events.failed(name, error)
      await this.#store.noteObstacle(reasonOf(error))
      return 0
    }
  }

  #reportDuplicates(name: string, count: number): void {
    if (this.#areDuplicatesReported) return
    this.#areDuplicatesReported = true
    this.#events.duplicates(name, count)
  }
}

const partsOf = (counts: readonly number[]): CrlPart[] =>
  counts.flatMap((shards) => Array.from({ length: shards }, (_, shard) => ({ shards, shard })))

function reasonOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error))
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}
