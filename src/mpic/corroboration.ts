/**
 * Corroboration (CA/Browser Forum Baseline Requirements 3.2.2.9): a validation counts only when enough remote perspectives
 * confirm it. This service, the primary perspective, makes the determination; the others can only veto it.
 *
 * The perspectives are asked at the same time, after this service has said yes. Control and CAA are
 * separate questions, each with its own quorum. After the quorum decides, the rest get a grace
 * period. Evidence then names every result, and a hanging perspective costs little time. A
 * perspective without an answer does not corroborate. Answers are used once and never cached.
 */

import { setMaxListeners } from 'node:events'
import type { CaaFinding, CaaJob, EvidenceStep, ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import { type CheckType, caaRequest, dcvRequest, type MpicRequest } from './perspective-api.ts'
import type { Answer, RemotePerspective } from './remote-perspective.ts'

export interface QuorumPolicy {
  /** How many may fail to corroborate; undefined takes the table of BR 3.2.2.9. */
  maxNonCorroborations: number | undefined
  /** Least number of distinct regions among those that corroborate. */
  minRegions: number
}

/** The vote of one perspective, as far as it is known. */
export interface Vote {
  /** Perspectives without a region count as one region together. */
  region: string | undefined
  vote: 'yes' | 'no' | 'pending'
}

/** `open`: it depends on pending votes. */
export type Quorum = 'met' | 'missed' | 'open'

/** BR 3.2.2.9, "Quorum Requirements". The table begins at two; one alone must corroborate. */
export function allowedNonCorroborations(perspectives: number): number {
  if (perspectives < 2) return 0
  return perspectives < 6 ? 1 : 2
}

/** How many perspectives must corroborate; at least one under any policy. */
export function neededCorroborations(perspectives: number, { maxNonCorroborations }: QuorumPolicy): number {
  return Math.max(1, perspectives - (maxNonCorroborations ?? allowedNonCorroborations(perspectives)))
}

export function judgeQuorum(votes: readonly Vote[], policy: QuorumPolicy): Quorum {
  const said = votes.filter(({ vote }) => vote === 'yes')
  if (isEnough(said, votes.length, policy)) return 'met'
  const possible = votes.filter(({ vote }) => vote !== 'no')
  return isEnough(possible, votes.length, policy) ? 'open' : 'missed'
}

function isEnough(corroborating: readonly Vote[], perspectives: number, policy: QuorumPolicy): boolean {
  const regions = new Set(corroborating.map(({ region }) => region))
  return corroborating.length >= neededCorroborations(perspectives, policy) && regions.size >= policy.minRegions
}

export interface CorroborationOptions {
  perspectives: readonly RemotePerspective[]
  policy: QuorumPolicy
  /** For all perspectives together. */
  timeoutMs: number
  /** Extra time for answers that can no longer change the outcome. */
  graceMs?: number
  newTraceId(): string
  /** Called once for every perspective and question. */
  onAnswer?(perspective: string, check: CheckType, result: Answer['result']): void
}

const GRACE_MS = 1000

/** The perspectives' common result for one question. */
interface Outcome {
  isMet: boolean
  /** True when a perspective saw something else; false when perspectives only failed to answer. */
  isContradicted: boolean
  /** Shown to the client. */
  summary: string
  evidence: EvidenceStep[]
}

export class Corroboration {
  readonly #options: CorroborationOptions

  constructor(options: CorroborationOptions) {
    this.#options = options
  }

  /** Returns the verdict unchanged unless it is positive and not corroborated. */
  async verdict(job: ValidationJob, verdict: ValidationVerdict): Promise<ValidationVerdict> {
    if (!verdict.ok) return verdict
    const traceId = this.#options.newTraceId()
    const control = dcvRequest(job, traceId)
    // The configuration refuses such methods. This check keeps a job without a question from passing.
    if (!control) return failed(verdict, 'serverInternal', `${job.type} cannot be corroborated`, [], false)
    const caa = job.caa
    const [ofControl, ...ofCaa] = await Promise.all([
      this.#ask(control),
      ...(caa?.subjects ?? []).map((subject) => this.#ask(caaRequest(subject, caa as CaaJob, traceId))),
    ])
    const evidence = [ofControl, ...ofCaa].flatMap((outcome) => outcome.evidence)
    if (!ofControl.isMet) {
      const problem = ofControl.isContradicted ? 'unauthorized' : 'serverInternal'
      return failed(verdict, problem, `control was shown here, but ${ofControl.summary}`, evidence)
    }
    const missed = ofCaa.find(({ isMet }) => !isMet)
    if (!missed) return { ...verdict, evidence: [...verdict.evidence, ...evidence] }
    const [problem, result] = missed.isContradicted
      ? (['caa', 'forbidden'] as const)
      : (['serverInternal', 'failed'] as const)
    const detail = `the CAA records seen here permit this certificate, but ${missed.summary}`
    return { ...failed(verdict, problem, detail, evidence), caa: result }
  }

  /** Corroborates CAA checks alone. */
  async findings(job: CaaJob, findings: readonly CaaFinding[]): Promise<CaaFinding[]> {
    const traceId = this.#options.newTraceId()
    return Promise.all(
      findings.map(async (finding, index): Promise<CaaFinding> => {
        const subject = job.subjects[index]
        if (!subject || finding.result === 'forbidden' || finding.result === 'failed') return finding
        const outcome = await this.#ask(caaRequest(subject, job, traceId))
        const evidence = [...finding.evidence, ...outcome.evidence]
        if (outcome.isMet) return { ...finding, evidence }
        const detail = `the CAA records of ${subject.name} seen here permit this certificate, but ${outcome.summary}`
        return { result: outcome.isContradicted ? 'forbidden' : 'failed', detail, evidence }
      }),
    )
  }

  async #ask(request: MpicRequest): Promise<Outcome> {
    const { perspectives, policy, timeoutMs, graceMs = GRACE_MS, onAnswer } = this.#options
    const startedAt = performance.now()
    const controller = new AbortController()
    // Each perspective adds a listener, so the default limit would warn.
    setMaxListeners(0, controller.signal)
    const timer = setTimeout(() => controller.abort(), timeoutMs)
    let grace: NodeJS.Timeout | undefined
    const steps: EvidenceStep[] = []
    const votes: Vote[] = perspectives.map(({ region }) => ({ region, vote: 'pending' }))
    let isContradicted = false

    await Promise.all(
      perspectives.map(async ({ name, region, ask }, index) => {
        const { result, reason } = await ask(request, controller.signal)
        const ms = Math.round(performance.now() - startedAt)
        const check = request.check_type
        steps[index] = {
          step: 'perspective',
          name,
          ...(region && { region }),
          check,
          result,
          ...(reason && { reason }),
          ms,
        }
        onAnswer?.(name, check, result)
        isContradicted ||= result === 'refused'
        votes[index] = { region, vote: result === 'corroborated' ? 'yes' : 'no' }
        if (judgeQuorum(votes, policy) !== 'open') grace ??= setTimeout(() => controller.abort(), graceMs)
      }),
    )
    clearTimeout(timer)
    clearTimeout(grace)
    const { step, ...outcome } = tally(request, votes, policy)
    return { ...outcome, isContradicted, evidence: [...steps, step] }
  }
}

function tally(request: MpicRequest, votes: readonly Vote[], policy: QuorumPolicy) {
  const isMet = judgeQuorum(votes, policy) === 'met'
  const corroborated = votes.filter(({ vote }) => vote === 'yes').length
  const needed = neededCorroborations(votes.length, policy)
  const { minRegions } = policy
  const inRegions = minRegions > 1 ? ` in ${minRegions} regions` : ''
  const step: EvidenceStep = {
    step: 'corroboration',
    check: request.check_type,
    of: votes.length,
    corroborated,
    needed,
    ...(minRegions > 1 && { minRegions }),
    result: isMet ? 'corroborated' : 'not corroborated',
  }
  const summary = `${corroborated} of ${votes.length} remote perspectives corroborate it, and ${needed}${inRegions} must`
  return { isMet, summary, step }
}

/** Retryable: routes and records often differ between places for only a short time. */
function failed(
  { evidence }: ValidationVerdict,
  problem: 'unauthorized' | 'caa' | 'serverInternal',
  detail: string,
  more: readonly EvidenceStep[],
  retryable = true,
): ValidationVerdict {
  return { ok: false, problem, detail, retryable, evidence: [...evidence, ...more] }
}
