/**
 * The challenges with a digest in a TXT record: dns-01 (RFC 8555 §8.4) and dns-account-01, which
 * only uses another name (draft-ietf-acme-dns-account-label-03 §3).
 *
 * Any record may match, since clients and orders share the name. While a record may still spread,
 * the attempt repeats the look-up within its own time. The client sees the name of the record and
 * our own words, but no alias, record or name server.
 */

import { type Deadline, startDeadline } from '../deadline.ts'
import type { DnsResult } from '../dns/ask.ts'
import { lookUntilFound, lookUpFacts, type Way, waysOf } from '../dns/method.ts'
import type { Dns01Job, DnsAccount01Job, DnsTxtJob, EvidenceStep, ValidationVerdict } from '../job.ts'
import { nearMiss } from './near-miss.ts'

type Failure = Extract<ValidationVerdict, { ok: false }>

interface Attempt {
  /** Name of the TXT record. */
  name: string
  /** Added to "missing record" errors: the source of the name, if the client could get it wrong. */
  origin: string
  expected: Buffer
  requireDnssec: boolean
  ways: readonly Way[]
  deadline: Deadline
  evidence: EvidenceStep[]
}

/** RFC 8555 §8.4. */
export function validateDns01(job: Dns01Job): Promise<ValidationVerdict> {
  return validateTxt(`_acme-challenge.${job.identifier.value}`, job)
}

export function validateDnsAccount01(job: DnsAccount01Job): Promise<ValidationVerdict> {
  const name = `_${job.accountLabel}._acme-challenge.${job.identifier.value}`
  // §3.4 requires the account URL in the error.
  return validateTxt(name, job, job.accountUrl && `; its label is that of the account ${job.accountUrl}`)
}

/**
 * Returns a verdict for any DNS input, within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
async function validateTxt(name: string, job: DnsTxtJob, origin = ''): Promise<ValidationVerdict> {
  const attempt: Attempt = {
    name,
    origin,
    expected: Buffer.from(job.keyAuthorizationDigest, 'latin1'),
    requireDnssec: job.requireDnssec,
    ways: waysOf(job),
    deadline: startDeadline(job.timeoutMs),
    evidence: [],
  }
  const verdict = await lookUntilFound(() => look(attempt), attempt.deadline, job.propagationWaitMs)
  attempt.evidence.push({ step: 'finished', durationMs: Math.round(attempt.deadline.elapsedMs()) })
  return verdict
}

/** Succeeds when every way finds the record. */
async function look(attempt: Attempt): Promise<ValidationVerdict> {
  for (const way of attempt.ways) {
    const startedMs = attempt.deadline.elapsedMs()
    const found = await way.dns.query(attempt.name, 'TXT', attempt.deadline)
    const durationMs = Math.round(attempt.deadline.elapsedMs() - startedMs)
    attempt.evidence.push({ step: 'looked-up', name: attempt.name, via: way.via, ...lookUpFacts(found), durationMs })
    const failure = judge(found, way, attempt)
    if (failure) return failure
  }
  return { ok: true, evidence: attempt.evidence }
}

function judge(found: DnsResult<'TXT'>, { via }: Way, attempt: Attempt): Failure | undefined {
  switch (found.kind) {
    case 'failed':
      return fail(attempt, 'dns', `look-up failed: ${found.reason}`, found.retryable)
    case 'nxdomain':
      return fail(attempt, 'dns', `the name does not exist (NXDOMAIN)${attempt.origin}`, true)
    case 'nodata':
      return fail(attempt, 'dns', `the name has no TXT record${attempt.origin}`, true)
    case 'answer':
      break
  }
  if (via === 'resolver' && attempt.requireDnssec && !found.authenticated) {
    return fail(attempt, 'dns', 'the answer is not authenticated by DNSSEC', false)
  }
  // The strings of a record are one text (RFC 1035 §3.3.14).
  const texts = found.records.map(({ data }) => Buffer.concat(data))
  if (texts.some((text) => attempt.expected.equals(text))) return undefined
  const count = found.records.length === 1 ? 'the TXT record is not' : `none of ${found.records.length} TXT records is`
  // A cache may still hold a record of an earlier order, so a retry may help.
  const slip = texts.map((text) => nearMiss(text, attempt.expected)).find((words) => words !== '') ?? ''
  return fail(attempt, 'incorrectResponse', `${count} the digest of the key authorization${slip}`, true)
}

function fail({ name, evidence }: Attempt, problem: Failure['problem'], what: string, retryable: boolean): Failure {
  return { ok: false, problem, detail: `TXT ${name}: ${what}`, retryable, evidence }
}
