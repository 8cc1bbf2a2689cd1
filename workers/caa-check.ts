/**
 * Finds and judges the CAA records of a name (RFC 8659 §3, BR 3.2.2.8).
 *
 * 1. Ask the name, then each parent up to the top-level domain. The closest name with records
 *    decides.
 * 2. Each look-up follows aliases, but never climbs the parents of an alias's target (RFC 8659 §7
 *    corrects RFC 6844).
 * 3. A look-up that fails before records are found forbids issuance. The operator can except a
 *    zone, unless its parent declares it signed: silencing a signed zone must not help an attacker.
 */

import { setMaxListeners } from 'node:events'
import { type CaaProperty, evaluateCaa } from '../src/shared/protocol/caa.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import type { DnsClient, DnsResult } from './dns/ask.ts'
import { createDnsClient } from './dns/dns-client.ts'
import type { CaaFinding, CaaJob, CaaSubject, EvidenceStep } from './job.ts'

/** Names asked at once for one subject. Most names have fewer labels, so they need one round trip. */
const LEVELS_AT_ONCE = 5
/** Subjects checked at once. With all levels, a certificate of a hundred names uses some tens of sockets. */
const SUBJECTS_AT_ONCE = 10
/** Evidence is stored, and a record set can fill a whole message. */
const MAX_EVIDENCE_RECORDS = 20
const MAX_EVIDENCE_VALUE = 256

interface Check {
  job: CaaJob
  dns: DnsClient
  deadline: Deadline
  signal: AbortSignal
  /** Look-ups of this check. The names of one certificate share most parents. */
  records: Map<string, Promise<DnsResult<'CAA'>>>
  isSigned: Map<string, Promise<boolean>>
}

/**
 * Returns one finding per subject, in order, for any input from name servers. Ends within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
export async function checkCaa(job: CaaJob): Promise<CaaFinding[]> {
  const controller = new AbortController()
  // Each running question adds a listener: some tens in all.
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
  // Stop needless look-ups of parents; they must not continue after the verdict.
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
    // In the order of the tree, because a child's answer takes precedence over its parent's.
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

/** The closest listed zone that equals or contains the name. */
function exceptedZone(name: string, { unreachableOk }: CaaJob): string | undefined {
  return unreachableOk
    .filter((zone) => name === zone || name.endsWith(`.${zone}`))
    .reduce<string | undefined>(
      (best, zone) => (best === undefined || zone.length > best.length ? zone : best),
      undefined,
    )
}

/** An exception requires a repeated failure (BR 3.2.2.8) and an unsigned zone. */
async function secondLook(name: string, zone: string, check: Check): Promise<[DnsResult<'CAA'>, boolean]> {
  return Promise.all([check.dns.query(name, 'CAA', check.deadline, check.signal), isSignedZone(zone, check)])
}

/**
 * True when the parent zone has a DS record for the zone. If that look-up fails too, the operator's exception holds.
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
