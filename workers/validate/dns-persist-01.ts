/**
 * The dns-persist-01 challenge (draft-ietf-acme-dns-persist): TXT records at `_validation-persist.<name>`.
 *
 * Where the policy allows it, the names above are asked as well, the closest first; the first that authorizes ends the
 * search. What the records mean is decided in dns-persist-record.ts. The client is told of the closest name that has a
 * record for this server, otherwise of the identifier itself.
 */

import { type Deadline, startDeadline } from '../deadline.ts'
import { createDnsClient, type DnsClient, type DnsRecord, type DnsResult } from '../dns/client.ts'
import type { DnsPersist01Job, EvidenceStep, ValidationVerdict } from '../job.ts'
import { evaluateRecords, namesUs, type TxtRecord } from './dns-persist-record.ts'

const LABEL = '_validation-persist'
/** Evidence is kept with the challenge: only records that name this server, and not whole kilobytes of them. */
const MAX_EVIDENCE_RECORDS = 10
const MAX_EVIDENCE_TEXT = 512

type Failure = Extract<ValidationVerdict, { ok: false }>

/** What one name came to. `isAboutUs`: a record there names this server. */
type Outcome = { authorized: true; validForSeconds: number | undefined } | (NameFailure & { authorized: false })
type NameFailure = Pick<Failure, 'problem' | 'detail' | 'retryable'> & { isAboutUs: boolean }

interface Attempt {
  job: DnsPersist01Job
  dns: DnsClient
  deadline: Deadline
  evidence: EvidenceStep[]
}

/**
 * Total for anything that DNS can send; ends within `job.timeoutMs`.
 * @throws RangeError for a job whose settings do not parse (they were checked when the configuration was loaded).
 */
export async function validateDnsPersist01(job: DnsPersist01Job): Promise<ValidationVerdict> {
  const attempt: Attempt = {
    job,
    dns: createDnsClient(job.dns, { dnssec: job.requireDnssec }),
    deadline: startDeadline(job.timeoutMs),
    evidence: [],
  }
  const verdict = await searchNames(attempt)
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
  // What one name could not tell yet, another try may learn.
  return { ok: false, problem, detail, retryable: failures.some(({ retryable }) => retryable), evidence }
}

/** The identifier, and the names of at least two labels above it when they may speak for it (draft §6). */
function recordNames({ identifier, allowSubdomainPolicy }: DnsPersist01Job): string[] {
  const names = [identifier.value]
  const labels = identifier.value.split('.')
  for (let cut = 1; allowSubdomainPolicy && labels.length - cut >= 2; cut++) names.push(labels.slice(cut).join('.'))
  return names
}

async function judgeName(name: string, attempt: Attempt): Promise<Outcome> {
  const { job, evidence } = attempt
  const owner = `${LABEL}.${name}`
  const found = await attempt.dns.query(owner, 'TXT', attempt.deadline)
  if (found.kind !== 'answer') {
    evidence.push({ step: 'no-records', name: owner, ...lookUpFacts(found) })
    return failed(WITHOUT_RECORDS[found.kind], owner, found)
  }

  const records = found.records.map(readRecord)
  const ours = records.filter(({ text }) => namesUs(text, job))
  const shown = ours.slice(0, MAX_EVIDENCE_RECORDS)
  evidence.push({
    step: 'records',
    name: owner,
    ...lookUpFacts(found),
    total: records.length,
    ours: shown.map(({ text, ttlSeconds }) => ({ text: text.slice(0, MAX_EVIDENCE_TEXT), ttlSeconds })),
  })
  if (job.requireDnssec && !found.authenticated) {
    const detail = `${owner}: the answer is not authenticated by DNSSEC, which this server requires`
    return { authorized: false, problem: 'dns', detail, retryable: true, isAboutUs: ours.length > 0 }
  }
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
  if (verdict.kind === 'authorized') return { authorized: true, validForSeconds: verdict.validForSeconds }
  if (verdict.kind === 'none') {
    const detail = `${owner}: no TXT record names ${issuerDomainNames.join(' or ')}`
    return { authorized: false, problem: 'unauthorized', detail, retryable: true, isAboutUs: false }
  }
  const { problem, reason, retryable } = verdict
  return { authorized: false, problem, detail: `${owner}: the record ${reason}`, retryable, isAboutUs: true }
}

type Missing = Exclude<DnsResult<'TXT'>, { kind: 'answer' }>

/** A name without records lacks the authorization; only a look-up that went wrong is a matter of DNS (RFC 8555 §6.7). */
const WITHOUT_RECORDS = {
  nxdomain: { problem: 'unauthorized', what: 'there is no such name (NXDOMAIN)' },
  nodata: { problem: 'unauthorized', what: 'the name has no TXT record' },
  failed: { problem: 'dns', what: 'TXT look-up failed' },
} as const satisfies Record<Missing['kind'], { problem: Failure['problem']; what: string }>

function failed(
  { problem, what }: (typeof WITHOUT_RECORDS)[Missing['kind']],
  owner: string,
  found: Missing,
): Outcome & { authorized: false } {
  const detail = `${owner}: ${what}${found.kind === 'failed' ? `: ${found.reason}` : ''}`
  const retryable = found.kind !== 'failed' || found.retryable
  return { authorized: false, problem, detail, retryable, isAboutUs: false }
}

function lookUpFacts(found: DnsResult<'TXT'>): object {
  if (found.kind === 'failed') return { reason: found.reason }
  const { kind, resolver, authenticated, aliases } = found
  return { ...(kind !== 'answer' && { reason: kind }), resolver, authenticated, aliases }
}

/** RFC 1035 §3.3.14: a text longer than 255 octets is written as several strings, which are one text. */
function readRecord({ data, ttlSeconds }: DnsRecord<'TXT'>): TxtRecord {
  return { text: Buffer.concat(data).toString('latin1'), ttlSeconds }
}
