/**
 * Finding the CAA records that count for a name, and judging them (RFC 8659 §3, BR 3.2.2.8).
 *
 * The name itself is asked first, then each parent up to the top-level domain; the first that has
 * records decides, and what lies above does not matter. Aliases are followed by each look-up, as by
 * any other; the parents of an alias's target are not climbed (RFC 8659 §7, a correction of RFC
 * 6844). A look-up that fails before the records were found leaves it open what they say, so
 * nothing is issued, except in zones that the operator has named, and there only if the zone above
 * does not call them signed: an attacker who can silence a signed zone must not gain by it.
 */

import { setMaxListeners } from 'node:events'
import { type CaaProperty, evaluateCaa } from '../src/shared/protocol/caa.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { createDnsClient } from './dns/client.ts'
import type { DnsClient, DnsResult } from './dns/result.ts'
import type { CaaFinding, CaaJob, CaaSubject, EvidenceStep } from './job.ts'

/**
 * Names asked at the same time for one subject: most names have fewer
 * labels, and need one round trip.
 */
const LEVELS_AT_ONCE = 5
/**
 * Subjects worked on at the same time: with the levels, some tens of sockets for a
 * certificate of a hundred names.
 */
const SUBJECTS_AT_ONCE = 10
/** Evidence is kept; a record set can be as large as a message. */
const MAX_EVIDENCE_RECORDS = 20
const MAX_EVIDENCE_VALUE = 256

interface Check {
  job: CaaJob
  dns: DnsClient
  deadline: Deadline
  signal: AbortSignal
  /** Look-ups of this check: the names of one certificate have most of their parents in common. */
  records: Map<string, Promise<DnsResult<'CAA'>>>
  isSigned: Map<string, Promise<boolean>>
}

/**
 * One finding for each subject, in their order. Total for anything that name servers can
 * send; ends within `job.timeoutMs`.
 * @throws RangeError for a job whose settings do not parse (they were checked when
 * the configuration was loaded).
 */
export async function checkCaa(job: CaaJob): Promise<CaaFinding[]> {
  const controller = new AbortController()
  // One listener for each question under way, which are some tens.
  setMaxListeners(0, controller.signal)
  const check: Check = {
    job,
    signal: controller.signal,
    dns: createDnsClient(job.dns),
    deadline: startDeadline(job.timeoutMs),
    records: new Map(),
    isSigned: new Map(),
  }
  const findings: CaaFinding[] = []
  const indexes = job.subjects.keys()
  const worker = async () => {
    for (const index of indexes) findings[index] = await judge(job.subjects[index] as CaaSubject, check)
  }
  await Promise.all(Array.from({ length: SUBJECTS_AT_ONCE }, worker))
  // What was asked about parents, and is not needed any more, must not go on behind the verdict.
  controller.abort()
  return findings
}

async function judge(subject: CaaSubject, check: Check): Promise<CaaFinding> {
  const evidence: EvidenceStep[] = []
  const outcome = decide(subject, await findRelevant(subject.name, check, evidence), check.job)
  const { name, wildcard, method } = subject
  const durationMs = Math.round(check.deadline.elapsedMs())
  evidence.push({ step: 'caa', name, wildcard, method, result: outcome.result, durationMs })
  return { ...outcome, evidence }
}

/** The relevant record set, or why there is none. */
type Relevant =
  | { kind: 'records'; holder: string; records: readonly CaaProperty[] }
  | { kind: 'none'; excepted: boolean }
  | { kind: 'failed'; at: string; reason: string }
type Outcome = { result: 'permitted' | 'excepted' } | { result: 'forbidden' | 'failed'; detail: string }

function decide(
  { wildcard, method }: CaaSubject,
  found: Relevant,
  { identities, accountUri, issuerOnly = false }: CaaJob,
): Outcome {
  if (found.kind === 'failed') return { result: 'failed', detail: `CAA look-up of ${found.at} failed: ${found.reason}` }
  if (found.kind === 'none') return { result: found.excepted ? 'excepted' : 'permitted' }
  const decision = evaluateCaa(found.records, { wildcard, method, identities, accountUri, issuerOnly })
  if (decision.permitted) return { result: 'permitted' }
  const { reason } = decision
  return { result: 'forbidden', detail: `the CAA records of ${found.holder} do not permit this certificate: ${reason}` }
}

/** The relevant record set of RFC 8659 §3. */
async function findRelevant(name: string, check: Check, evidence: EvidenceStep[]): Promise<Relevant> {
  const levels = namesUpward(name)
  let excepted = false
  for (let start = 0; start < levels.length; start += LEVELS_AT_ONCE) {
    const asked = levels.slice(start, start + LEVELS_AT_ONCE).map((level) => [level, recordsOf(level, check)] as const)
    // In the order of the tree: what a parent says, or that it says nothing,
    // must not decide before its child.
    for (const [level, result] of asked) {
      const first = await result
      const zone = first.kind === 'failed' ? exceptedZone(level, check.job) : undefined
      const [answer, isSigned] = zone === undefined ? [first, false] : await secondLook(level, zone, check)
      if (answer.kind === 'answer') {
        const records = answer.records.map(({ data }) => data)
        const { resolver, authenticated, aliases } = answer
        evidence.push({ step: 'caa-records', at: level, records: excerpt(records), resolver, authenticated, aliases })
        return { kind: 'records', holder: level, records }
      }
      if (answer.kind !== 'failed') continue
      const { reason } = answer
      evidence.push({ step: 'caa-not-found', at: level, reason, ...(zone !== undefined && { zone, isSigned }) })
      if (zone === undefined || isSigned) return { kind: 'failed', at: level, reason }
      excepted = true
    }
  }
  return { kind: 'none', excepted }
}

/** `a.b.example`, `b.example`, `example`. */
function namesUpward(name: string): string[] {
  const labels = name.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

function recordsOf(name: string, { dns, deadline, signal, records }: Check): Promise<DnsResult<'CAA'>> {
  const known = records.get(name)
  if (known) return known
  const result = dns.query(name, 'CAA', deadline, signal)
  records.set(name, result)
  return result
}

/** The closest listed zone that the name is or lies in. */
function exceptedZone(name: string, { unreachableOk }: CaaJob): string | undefined {
  return unreachableOk
    .filter((zone) => name === zone || name.endsWith(`.${zone}`))
    .reduce<string | undefined>(
      (best, zone) => (best === undefined || zone.length > best.length ? zone : best),
      undefined,
    )
}

/** An exception needs a failure that was repeated (BR 3.2.2.8), and a zone that is not signed. */
async function secondLook(name: string, zone: string, check: Check): Promise<[DnsResult<'CAA'>, boolean]> {
  return Promise.all([check.dns.query(name, 'CAA', check.deadline, check.signal), isSignedZone(zone, check)])
}

/**
 * True when the zone above has a DS record for it. Where that cannot be learned
 * either, the operator's word stands.
 */
function isSignedZone(zone: string, { dns, deadline, signal, isSigned }: Check): Promise<boolean> {
  const known = isSigned.get(zone)
  if (known) return known
  const result = dns.query(zone, 'DS', deadline, signal).then(({ kind }) => kind === 'answer')
  isSigned.set(zone, result)
  return result
}

function excerpt(records: readonly { critical: boolean; tag: string; value: string }[]) {
  return records
    .slice(0, MAX_EVIDENCE_RECORDS)
    .map(({ critical, tag, value }) => ({ critical, tag, value: value.slice(0, MAX_EVIDENCE_VALUE) }))
}
