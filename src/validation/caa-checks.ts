/** CAA checks: the job of one check, and the supervisor's checks for finalize. */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type { CaaFinding, CaaJob } from '../../workers/job.ts'
import { WorkerPoolError } from '../../workers/job.ts'
import { boundSteps } from '../domain/validation-attempt.ts'
import type { AskForCaa, CaaCheckRequest } from '../services/caa-freshness.ts'
import { LruMap } from '../shared/lib/caching.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import type { CaaJobFactory } from './jobs.ts'

/**
 * Limits concurrent checks for finalize, because they share the supervisor's actor with
 * validations. Silent name servers must leave most of the actor free.
 */
const MAX_AT_ONCE = 24
/**
 * The limit of one account. Otherwise an account with silent name servers could take every place.
 */
const MAX_OF_ACCOUNT = MAX_AT_ONCE / 4

/**
 * After this many refusals within a minute, the same names are refused without a look-up. A
 * repaired record counts again after a minute at the latest.
 */
const REFUSED_LOOKS = 3
const REFUSED_MS = 60_000
const REFUSALS = 256

/** Time for a check to wait in the pool before the front gives up. */
const QUEUE_MS = 5_000

/** The part of a check that comes from the settings. */
export type CaaSettings = Omit<CaaJob, 'subjects' | 'accountUri'>

/**
 * @param settings undefined when CAA is not enforced
 * @returns undefined then
 */
export function createCaaJobFactory(settings: CaaSettings | undefined, urls: Urls): CaaJobFactory | undefined {
  if (!settings) return undefined
  return ({ accountId, accountPath }, subjects) => ({
    ...settings,
    subjects,
    accountUri: urls.account(accountId, accountPath),
  })
}

/**
 * How long a front waits for the supervisor's answer.
 * @param checkMs longest time of one check
 */
export const caaAnswerDeadlineMs = (checkMs: number) => checkMs + QUEUE_MS

interface CaaChecksOptions {
  jobFor: CaaJobFactory | undefined
  checkCaa(job: CaaJob): Promise<CaaFinding[]>
  /** Called for each name that was checked. */
  onResult(result: CaaFinding['result']): void
  log: Logger
}

interface Refusal {
  findings: readonly CaaFinding[]
  looks: number
  /** `performance.now()` of the first counted look-up. */
  since: number
}

const isRefusal = ({ result }: CaaFinding) => result === 'forbidden' || result === 'failed'

/** Remembers refusals by account and names, because CAA records may name the account. */
function createRefusals(clock: () => number) {
  const refusals = new LruMap<string, Refusal>(REFUSALS)
  const keyOf = ({ accountId, accountPath, subjects }: CaaCheckRequest) =>
    hash('sha256', JSON.stringify([accountId, accountPath, subjects]))
  const recent = (key: string) => {
    const known = refusals.get(key)
    return known && clock() - known.since < REFUSED_MS ? known : undefined
  }
  return {
    find(request: CaaCheckRequest) {
      const known = recent(keyOf(request))
      return known && known.looks >= REFUSED_LOOKS ? known.findings : undefined
    },
    note(request: CaaCheckRequest, findings: readonly CaaFinding[]) {
      if (!findings.some(isRefusal)) return
      const key = keyOf(request)
      const { looks, since } = recent(key) ?? { looks: 0, since: clock() }
      refusals.set(key, { findings, looks: looks + 1, since })
    },
  }
}

/** Answers undefined when too many checks run, for all or for this account, or the workers fail. */
export function createCaaChecks(
  { jobFor, checkCaa, onResult, log }: CaaChecksOptions,
  clock: () => number = () => performance.now(),
): AskForCaa {
  const refusals = createRefusals(clock)
  let running = 0
  const ofAccounts = new Map<string, number>()

  async function check(accountId: string, job: CaaJob): Promise<CaaFinding[] | undefined> {
    running++
    ofAccounts.set(accountId, ofAccount(accountId) + 1)
    try {
      return await checkCaa(job)
    } catch (error) {
      if (!(error instanceof WorkerPoolError)) throw error
      log.warn({ err: error }, 'a CAA check gave no verdict')
      return undefined
    } finally {
      running--
      if (ofAccount(accountId) === 1) ofAccounts.delete(accountId)
      else ofAccounts.set(accountId, ofAccount(accountId) - 1)
    }
  }

  const ofAccount = (accountId: string) => ofAccounts.get(accountId) ?? 0

  return async (request) => {
    const { accountId, orderId, subjects } = request
    const refused = refusals.find(request)
    if (refused) return refused
    if (!jobFor || running >= MAX_AT_ONCE || ofAccount(accountId) >= MAX_OF_ACCOUNT) return undefined
    const found = await check(accountId, jobFor(request, subjects))
    if (!found) return undefined
    for (const { result } of found) onResult(result)
    const { steps, omitted } = boundSteps(found.flatMap(({ evidence }) => evidence))
    const line = { event: 'caa_check', accountId, orderId, evidence: steps, ...(omitted && { omitted }) }
    log.info(line, 'CAA records checked before issuance')
    // Only the log needs the evidence, which can be a megabyte.
    const findings = found.map((finding) => ({ ...finding, evidence: [] }))
    refusals.note(request, findings)
    return findings
  }
}
