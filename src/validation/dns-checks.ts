/** Checks of CAA records for finalize and of MX records for registration, in the supervisor; and their jobs. */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import {
  type CaaFinding,
  type CaaJob,
  type MailDomainFinding,
  type MailDomainJob,
  WorkerPoolError,
} from '../../workers/job.ts'
import { boundSteps } from '../domain/validation-attempt.ts'
import type { AskForCaa, CaaCheckRequest } from '../services/caa-freshness.ts'
import type { AskForMailDomains } from '../services/registration.ts'
import { LruMap } from '../shared/lib/caching.ts'
import { messageOf } from '../shared/lib/errors.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import type { CaaJobFactory } from './jobs.ts'

/**
 * Limits concurrent checks for finalize, because they share the supervisor's actor with
 * validations. Silent name servers must leave most of the actor free.
 */
const MAX_CAA_AT_ONCE = 24
/** The limit of one account. Otherwise an account with silent name servers could take every place. */
const MAX_OF_ACCOUNT = MAX_CAA_AT_ONCE / 4

/**
 * After this many refusals within a minute, the same names are refused without a look-up. A
 * repaired record counts again after a minute at the latest.
 */
const REFUSED_LOOKS = 3
const REFUSED_MS = 60_000
const REFUSALS = 256

/** Time for a check to wait in the pool before the front gives up, or continues without it. */
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
    if (!jobFor || running >= MAX_CAA_AT_ONCE || ofAccount(accountId) >= MAX_OF_ACCOUNT) return undefined
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

/** Low, because these checks of MX records share the supervisor's actor and need no account yet. */
const MAX_MX_AT_ONCE = 8

/** The part of a check that comes from the settings. */
export type MailDomainSettings = Omit<MailDomainJob, 'domains'>

interface MailDomainChecksOptions {
  settings: MailDomainSettings
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]>
  log: Logger
}

/** Answers undefined when too many checks run or the workers fail. Each unchecked domain is logged. */
export function createMailDomainChecks({
  settings,
  checkMailDomains,
  log,
}: MailDomainChecksOptions): AskForMailDomains {
  let running = 0

  async function check(domains: readonly string[]): Promise<readonly MailDomainFinding[] | undefined> {
    running++
    try {
      return await checkMailDomains({ ...settings, domains })
    } catch (error) {
      if (!(error instanceof WorkerPoolError)) throw error
      logUnchecked(log, domains, error.message)
      return undefined
    } finally {
      running--
    }
  }

  return async (domains) => {
    if (running >= MAX_MX_AT_ONCE) {
      logUnchecked(log, domains, `${MAX_MX_AT_ONCE} checks are running already`)
      return undefined
    }
    const findings = await check(domains)
    for (const [index, finding] of (findings ?? []).entries())
      if (finding.result === 'failed') logUnchecked(log, domains.slice(index, index + 1), finding.reason)
    return findings
  }
}

type AskSupervisor = (domains: readonly string[], deadlineMs: number) => ReturnType<AskForMailDomains>

/**
 * Sends the checks of a front thread to the supervisor. A contact is accepted when the supervisor does not answer.
 * @param checkMs longest time of one check; undefined when the check is off
 * @returns undefined then
 */
export function mailDomainsThrough(
  ask: AskSupervisor,
  checkMs: number | undefined,
  log: Logger,
): AskForMailDomains | undefined {
  if (checkMs === undefined) return undefined
  return async (domains) => {
    try {
      return await ask(domains, checkMs + QUEUE_MS)
    } catch (error) {
      logUnchecked(log, domains, messageOf(error))
      return undefined
    }
  }
}

function logUnchecked(log: Logger, domains: readonly string[], reason: string): void {
  log.warn({ event: 'mx_unchecked', domains, reason }, 'a contact is accepted although its mail domain was not checked')
}
