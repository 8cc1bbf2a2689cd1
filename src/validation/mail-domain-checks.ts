/** MX checks for registration, on the supervisor's side and on the front's. */

import type { Logger } from 'pino'
import type { MailDomainFinding, MailDomainJob } from '../../workers/job.ts'
import { WorkerPoolError } from '../../workers/job.ts'
import type { AskForMailDomains } from '../services/registration.ts'

/** Low, because the checks share the supervisor's actor and need no account yet. */
const MAX_AT_ONCE = 8

/** Time for a check to wait in the pool before the front continues without it. */
const QUEUE_MS = 5_000

/** The part of a check that comes from the settings. */
export type MailDomainSettings = Omit<MailDomainJob, 'domains'>

interface MailDomainChecksOptions {
  settings: MailDomainSettings
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]>
  log: Logger
}

/**
 * Answers undefined when too many checks run or the workers fail. Each unchecked domain is logged.
 */
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
    if (running >= MAX_AT_ONCE) {
      logUnchecked(log, domains, `${MAX_AT_ONCE} checks are running already`)
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
      logUnchecked(log, domains, error instanceof Error ? error.message : String(error))
      return undefined
    }
  }
}

function logUnchecked(log: Logger, domains: readonly string[], reason: string): void {
  log.warn({ event: 'mx_unchecked', domains, reason }, 'a contact is accepted although its mail domain was not checked')
}
