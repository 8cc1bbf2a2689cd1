/**
 * The challenges with a TXT record: dns-01 (RFC 8555 §8.4), dns-account-01, which only uses another name
 * (draft-ietf-acme-dns-account-label-03 §3), and dns-persist-01 (draft-ietf-acme-dns-persist).
 *
 * An attempt looks the record up by every way that its settings demand. While a record may still spread, it repeats the
 * look-up within its own time. The client sees the name of the record and our own words, but no alias, record or name
 * server.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { createAddressPolicy } from '../address-policy.ts'
import { type Deadline, startDeadline } from '../deadline.ts'
import type { AnswerFacts, DnsClient, DnsResult } from '../dns/ask.ts'
import { createDnsClient } from '../dns/dns-client.ts'
import type { DnsRecord } from '../dns/dns-message.ts'
import type {
  Dns01Job,
  DnsAccount01Job,
  DnsMethodJob,
  DnsPersist01Job,
  DnsTxtJob,
  EvidenceStep,
  ValidationVerdict,
} from '../job.ts'
import { evaluateRecords, namesUs, type TxtRecord } from './dns-persist-record.ts'
import { nearMiss } from './near-miss.ts'

type Failure = Extract<ValidationVerdict, { ok: false }>

/** Pause before the second look. Each later pause is twice as long. */
const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 10_000

/** One way to look a record up. Every way of an attempt must find it. */
interface Way {
  via: 'resolver' | 'authoritative'
  dns: DnsClient
}

interface Attempt {
  ways: readonly Way[]
  deadline: Deadline
  evidence: EvidenceStep[]
}

/**
 * Returns a verdict for any DNS input, within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
async function attemptWith(
  job: DnsMethodJob,
  look: (attempt: Attempt) => Promise<ValidationVerdict>,
): Promise<ValidationVerdict> {
  const attempt: Attempt = { ways: waysOf(job), deadline: startDeadline(job.timeoutMs), evidence: [] }
  const verdict = await lookUntilFound(() => look(attempt), attempt.deadline, job.propagationWaitMs)
  attempt.evidence.push({ step: 'finished', durationMs: Math.round(attempt.deadline.elapsedMs()) })
  return verdict
}

/** Zone servers never set the AD bit, so both settings together require both look-ups. */
function waysOf({ dns, blockedNetworks, requireDnssec, requireAuthoritative, authoritativePort }: DnsMethodJob) {
  const ways: Way[] = []
  if (requireAuthoritative) {
    const authoritative = {
      policy: createAddressPolicy(blockedNetworks),
      ...(authoritativePort !== undefined && { port: authoritativePort }),
    }
    ways.push({ via: 'authoritative', dns: createDnsClient(dns, { authoritative }) })
  }
  if (requireDnssec || !requireAuthoritative) {
    ways.push({ via: 'resolver', dns: createDnsClient(dns, { dnssec: requireDnssec }) })
  }
  return ways
}

/** Repeats the look after a temporary failure. The last look comes at the end of the wait. */
export async function lookUntilFound(
  look: () => Promise<ValidationVerdict>,
  deadline: Deadline,
  propagationWaitMs: number,
): Promise<ValidationVerdict> {
  // A flag, because a timer may fire a fraction of a millisecond early.
  let isLast = false
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    const verdict = await look()
    const leftMs = propagationWaitMs - deadline.elapsedMs()
    const nextMs = Math.min(pauseMs, leftMs)
    if (verdict.ok || !verdict.retryable || isLast || leftMs <= 0 || nextMs >= deadline.remainingMs()) return verdict
    isLast = nextMs === leftMs
    await sleep(nextMs)
  }
}

/** @param more what the evidence says besides, from the answer */
async function lookUp(
  name: string,
  { via, dns }: Way,
  { deadline, evidence }: Attempt,
  more: (found: DnsResult<'TXT'>) => object | false = () => false,
): Promise<DnsResult<'TXT'>> {
  const startedMs = deadline.elapsedMs()
  const found = await dns.query(name, 'TXT', deadline)
  const durationMs = Math.round(deadline.elapsedMs() - startedMs)
  evidence.push({ step: 'looked-up', name, via, ...lookUpFacts(found), ...more(found), durationMs })
  return found
}

function lookUpFacts(found: DnsResult<'TXT'>): Record<string, unknown> {
  if (found.kind === 'failed') return { result: found.kind, reason: found.reason, resolver: found.asked.join(', ') }
  const { kind, resolver, authenticated, aliases } = found
  return { result: kind, resolver, authenticated, aliases, records: kind === 'answer' ? found.records.length : 0 }
}

/** Why a record does not show control. */
type Refusal = Pick<Failure, 'problem' | 'detail' | 'retryable'>

const refused = (name: string, problem: Failure['problem'], what: string, retryable: boolean): Refusal => ({
  problem,
  detail: `TXT ${name}: ${what}`,
  retryable,
})

/** @param origin added to "missing record" errors: the source of the name, if the client could get it wrong */
function withoutRecords(name: string, found: Exclude<DnsResult<'TXT'>, { kind: 'answer' }>, origin = ''): Refusal {
  switch (found.kind) {
    case 'failed':
      return refused(name, 'dns', `look-up failed: ${found.reason}`, found.retryable)
    case 'nxdomain':
      return refused(name, 'dns', `the name does not exist (NXDOMAIN)${origin}`, true)
    case 'nodata':
      return refused(name, 'dns', `the name has no TXT record${origin}`, true)
  }
}

/** @returns undefined where the answer is authenticated, or need not be */
function unauthenticated(
  name: string,
  { via }: Way,
  { requireDnssec }: DnsMethodJob,
  { authenticated }: AnswerFacts,
): Refusal | undefined {
  if (via !== 'resolver' || !requireDnssec || authenticated) return undefined
  return refused(name, 'dns', 'the answer is not authenticated by DNSSEC', false)
}

/** RFC 1035 §3.3.14: the strings of a record are one text, which has several above 255 octets. */
const textOf = ({ data }: DnsRecord<'TXT'>): Buffer => Buffer.concat(data)

/** RFC 8555 §8.4. */
export function validateDns01(job: Dns01Job): Promise<ValidationVerdict> {
  return validateDigest(`_acme-challenge.${job.identifier.value}`, job)
}

export function validateDnsAccount01(job: DnsAccount01Job): Promise<ValidationVerdict> {
  const name = `_${job.accountLabel}._acme-challenge.${job.identifier.value}`
  // §3.4 requires the account URL in the error.
  return validateDigest(name, job, job.accountUrl && `; its label is that of the account ${job.accountUrl}`)
}

/** Any record may match, since clients and orders share the name. Every way must find one. */
function validateDigest(name: string, job: DnsTxtJob, origin = ''): Promise<ValidationVerdict> {
  const expected = Buffer.from(job.keyAuthorizationDigest, 'latin1')
  return attemptWith(job, async (attempt) => {
    const { ways, evidence } = attempt
    for (const way of ways) {
      const found = await lookUp(name, way, attempt)
      const refusal =
        found.kind === 'answer'
          ? (unauthenticated(name, way, job, found) ?? judgeTexts(name, found.records.map(textOf), expected))
          : withoutRecords(name, found, origin)
      if (refusal) return { ok: false, ...refusal, evidence }
    }
    return { ok: true, evidence }
  })
}

function judgeTexts(name: string, texts: readonly Buffer[], expected: Buffer): Refusal | undefined {
  if (texts.some((text) => expected.equals(text))) return undefined
  const count = texts.length === 1 ? 'the TXT record is not' : `none of ${texts.length} TXT records is`
  // A cache may still hold a record of an earlier order, so a retry may help.
  const slip = texts.map((text) => nearMiss(text, expected)).find((words) => words !== '') ?? ''
  return refused(name, 'incorrectResponse', `${count} the digest of the key authorization${slip}`, true)
}

const LABEL = '_validation-persist'
/** Evidence is stored with the challenge: only records that name this server, and only their beginning. */
const MAX_EVIDENCE_RECORDS = 10
const MAX_EVIDENCE_TEXT = 512

/** The result for one name. `isAboutUs`: a record there names this server. */
type Outcome = { authorized: true; validForSeconds: number | undefined } | (NameFailure & { authorized: false })
type NameFailure = Refusal & { isAboutUs: boolean }

/**
 * The records are at `_validation-persist.<name>`. If the policy allows it, parent names are asked too, closest first,
 * until one authorizes. Errors name the closest name with a record for this server, otherwise the identifier.
 */
export function validateDnsPersist01(job: DnsPersist01Job): Promise<ValidationVerdict> {
  return attemptWith(job, (attempt) => searchNames(job, attempt))
}

async function searchNames(job: DnsPersist01Job, attempt: Attempt): Promise<ValidationVerdict> {
  const { deadline, evidence } = attempt
  const failures: NameFailure[] = []
  for (const name of recordNames(job)) {
    const outcome = await judgeName(name, job, attempt)
    if (outcome.authorized) {
      const { validForSeconds } = outcome
      return { ok: true, evidence, ...(validForSeconds !== undefined && { validForSeconds }) }
    }
    failures.push(outcome)
    if (deadline.remainingMs() === 0) break
  }
  const { problem, detail } = (failures.find(({ isAboutUs }) => isAboutUs) ?? failures[0]) as NameFailure
  // A retry may help if it may help for any name.
  return { ok: false, problem, detail, retryable: failures.some(({ retryable }) => retryable), evidence }
}

/** A record at a top-level domain does not count for names below it. */
const LEAST_LABELS_ABOVE = 2

/** The identifier, and its parent names if they may authorize it (draft §6). */
function recordNames({ identifier, allowSubdomainPolicy, leastLabelsAbove }: DnsPersist01Job): string[] {
  const names = [identifier.value]
  const labels = identifier.value.split('.')
  const least = Math.max(LEAST_LABELS_ABOVE, leastLabelsAbove ?? 0)
  for (let cut = 1; allowSubdomainPolicy && labels.length - cut >= least; cut++) names.push(labels.slice(cut).join('.'))
  return names
}

/** Every way must find an authorization; the shortest lifetime counts. */
async function judgeName(name: string, job: DnsPersist01Job, attempt: Attempt): Promise<Outcome> {
  const lifetimes: number[] = []
  for (const way of attempt.ways) {
    const outcome = await judgeNameBy(way, name, job, attempt)
    if (!outcome.authorized) return outcome
    if (outcome.validForSeconds !== undefined) lifetimes.push(outcome.validForSeconds)
  }
  return { authorized: true, validForSeconds: lifetimes.length > 0 ? Math.min(...lifetimes) : undefined }
}

async function judgeNameBy(way: Way, name: string, job: DnsPersist01Job, attempt: Attempt): Promise<Outcome> {
  const owner = `${LABEL}.${name}`
  let records: TxtRecord[] = []
  let ours: TxtRecord[] = []
  const found = await lookUp(owner, way, attempt, (answer) => {
    records = recordsOf(answer)
    ours = records.filter(({ text }) => namesUs(text, job))
    return shownAsEvidence(ours)
  })
  if (found.kind !== 'answer') return failed(withoutRecords(owner, found), false)
  const refusal = unauthenticated(owner, way, job, found)
  if (refusal) return failed(refusal, ours.length > 0)
  return judgeRecords(name, owner, records, job)
}

const recordsOf = (found: DnsResult<'TXT'>): TxtRecord[] =>
  found.kind === 'answer'
    ? found.records.map((record) => ({ text: textOf(record).toString('latin1'), ttlSeconds: record.ttlSeconds }))
    : []

const shownAsEvidence = (ours: readonly TxtRecord[]) =>
  ours.length > 0 && {
    ours: ours
      .slice(0, MAX_EVIDENCE_RECORDS)
      .map(({ text, ttlSeconds }) => ({ text: text.slice(0, MAX_EVIDENCE_TEXT), ttlSeconds })),
  }

function judgeRecords(name: string, owner: string, records: readonly TxtRecord[], job: DnsPersist01Job): Outcome {
  const { identifier, wildcard, issuerDomainNames, accountUrl, hashed, allowWildcardPolicy } = job
  const subject = {
    recordName: name,
    below: name !== identifier.value,
    wildcard,
    issuerDomainNames,
    accountUrl,
    allowWildcardPolicy,
    ...(hashed && { hashed }),
  }
  const verdict = evaluateRecords(records, subject, new Date())
  switch (verdict.kind) {
    case 'authorized':
      return { authorized: true, validForSeconds: verdict.validForSeconds }
    case 'none':
      return failed(refused(owner, 'unauthorized', `no record names ${issuerDomainNames.join(' or ')}`, true), false)
    case 'refused':
      return failed(refused(owner, verdict.problem, `the record ${verdict.reason}`, verdict.retryable), true)
  }
}

const failed = (refusal: Refusal, isAboutUs: boolean): Outcome => ({ authorized: false, ...refusal, isAboutUs })
