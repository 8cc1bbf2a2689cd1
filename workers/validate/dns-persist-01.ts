/**
 * The dns-persist-01 challenge (draft-ietf-acme-dns-persist): TXT records at `_validation-persist.<name>`.
 *
 * If the policy allows it, parent names are asked too, closest first, until one authorizes. dns-persist-record.ts
 * interprets the records. Errors name the closest name with a record for this server, otherwise the identifier.
 */

import { type Deadline, startDeadline } from '../deadline.ts'
import type { DnsResult } from '../dns/ask.ts'
import type { DnsRecord } from '../dns/dns-message.ts'
import { lookUntilFound, lookUpFacts, type Way, waysOf } from '../dns/method.ts'
import type { DnsPersist01Job, EvidenceStep, ValidationVerdict } from '../job.ts'
import { evaluateRecords, namesUs, type TxtRecord } from './dns-persist-record.ts'

const LABEL = '_validation-persist'
/** Evidence is stored with the challenge: only records that name this server, and only their beginning. */
const MAX_EVIDENCE_RECORDS = 10
const MAX_EVIDENCE_TEXT = 512

type Failure = Extract<ValidationVerdict, { ok: false }>

/** The result for one name. `isAboutUs`: a record there names this server. */
type Outcome = { authorized: true; validForSeconds: number | undefined } | (NameFailure & { authorized: false })
type NameFailure = Pick<Failure, 'problem' | 'detail' | 'retryable'> & { isAboutUs: boolean }

interface Attempt {
  job: DnsPersist01Job
  ways: readonly Way[]
  deadline: Deadline
  evidence: EvidenceStep[]
}

/**
 * Returns a verdict for any DNS input, within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
export async function validateDnsPersist01(job: DnsPersist01Job): Promise<ValidationVerdict> {
  const attempt: Attempt = { job, ways: waysOf(job), deadline: startDeadline(job.timeoutMs), evidence: [] }
  const verdict = await lookUntilFound(() => searchNames(attempt), attempt.deadline, job.propagationWaitMs)
  attempt.evidence.push({ step: 'finished', durationMs: Math.round(attempt.deadline.elapsedMs()) })
  return verdict
}

async function searchNames(attempt: Attempt): Promise<ValidationVerdict> {
  const { job, evidence } = attempt
  const failures: NameFailure[] = []
  for (const name of recordNames(job)) {
    const outcome = await judgeName(name, attempt)
    if (outcome.authorized) {
      const { validForSeconds } = outcome
      return { ok: true, evidence, ...(validForSeconds !== undefined && { validForSeconds }) }
    }
    failures.push(outcome)
    if (attempt.deadline.remainingMs() === 0) break
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
async function judgeName(name: string, attempt: Attempt): Promise<Outcome> {
  const lifetimes: number[] = []
  for (const way of attempt.ways) {
    const outcome = await judgeNameBy(way, name, attempt)
    if (!outcome.authorized) return outcome
    if (outcome.validForSeconds !== undefined) lifetimes.push(outcome.validForSeconds)
  }
  return { authorized: true, validForSeconds: lifetimes.length > 0 ? Math.min(...lifetimes) : undefined }
}

async function judgeNameBy({ via, dns }: Way, name: string, { job, deadline, evidence }: Attempt): Promise<Outcome> {
  const owner = `${LABEL}.${name}`
  const startedMs = deadline.elapsedMs()
  const found = await dns.query(owner, 'TXT', deadline)
  const durationMs = Math.round(deadline.elapsedMs() - startedMs)
  const records = found.kind === 'answer' ? found.records.map(readRecord) : []
  const ours = records.filter(({ text }) => namesUs(text, job))
  const shown = ours.slice(0, MAX_EVIDENCE_RECORDS)
  evidence.push({
    step: 'looked-up',
    name: owner,
    via,
    ...lookUpFacts(found),
    ...(shown.length > 0 && {
      ours: shown.map(({ text, ttlSeconds }) => ({ text: text.slice(0, MAX_EVIDENCE_TEXT), ttlSeconds })),
    }),
    durationMs,
  })
  if (found.kind !== 'answer') return withoutRecords(owner, found)
  if (via === 'resolver' && job.requireDnssec && !found.authenticated)
    return failed(owner, 'dns', 'the answer is not authenticated by DNSSEC', false, ours.length > 0)
  return judgeRecords(name, owner, records, job)
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
      return failed(owner, 'unauthorized', `no record names ${issuerDomainNames.join(' or ')}`, true, false)
    case 'refused':
      return failed(owner, verdict.problem, `the record ${verdict.reason}`, verdict.retryable, true)
  }
}

function withoutRecords(owner: string, found: Exclude<DnsResult<'TXT'>, { kind: 'answer' }>): Outcome {
  switch (found.kind) {
    case 'failed':
      return failed(owner, 'dns', `look-up failed: ${found.reason}`, found.retryable, false)
    case 'nxdomain':
      return failed(owner, 'dns', 'the name does not exist (NXDOMAIN)', true, false)
    case 'nodata':
      return failed(owner, 'dns', 'the name has no TXT record', true, false)
  }
}

function failed(
  owner: string,
  problem: Failure['problem'],
  what: string,
  retryable: boolean,
  isAboutUs: boolean,
): Outcome & { authorized: false } {
  return { authorized: false, problem, detail: `TXT ${owner}: ${what}`, retryable, isAboutUs }
}

/** RFC 1035 §3.3.14: a text above 255 octets is split into several strings. */
function readRecord({ data, ttlSeconds }: DnsRecord<'TXT'>): TxtRecord {
  return { text: Buffer.concat(data).toString('latin1'), ttlSeconds }
}
