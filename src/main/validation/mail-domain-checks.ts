/** MX checks from the configuration: the supervisor's side of those that registration asks for, and the front's. */

import type { Logger } from 'pino'
import type { MailDomainFinding, MailDomainJob } from '../../../workers/job.ts'
import { WorkerPoolError } from '../../../workers/pool-error.ts'
import type { Config } from '../../config/schema.ts'
import type { AskForMailDomains } from '../../services/mail-domains.ts'
import { dnsSettings } from './jobs.ts'

/** As for CAA: they occupy the supervisor's actor, and come from people who need no account yet. */
const MAX_AT_ONCE = 8

/** How long the pool may let a check wait before the front goes on without it. */
const QUEUE_MS = 5_000

/** The MX records and, where there are none, the addresses. */
function timeoutMs({ dns }: Config): number {
  return 2 * dns.timeout_seconds * 1000
}

export interface MailDomainChecksOptions {
  config: Config
  checkMailDomains(job: MailDomainJob): Promise<MailDomainFinding[]>
  log: Logger
}

/** Answers undefined when too many run already or the workers gave no verdict; what is let through so is in the log. */
export function createMailDomainChecks({ config, checkMailDomains, log }: MailDomainChecksOptions): AskForMailDomains {
  let running = 0

  async function check(domains: readonly string[]): Promise<readonly MailDomainFinding[] | undefined> {
    running++
    try {
      return await checkMailDomains({ domains, timeoutMs: timeoutMs(config), dns: dnsSettings(config) })
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

/** What a front thread asks with; undefined where the check is off. A supervisor that does not answer lets through, too. */
export function mailDomainsThrough(ask: AskSupervisor, config: Config, log: Logger): AskForMailDomains | undefined {
  if (!config.email.validate_mx) return undefined
  return async (domains) => {
    try {
      return await ask(domains, timeoutMs(config) + QUEUE_MS)
    } catch (error) {
      logUnchecked(log, domains, error instanceof Error ? error.message : String(error))
      return undefined
    }
  }
}

function logUnchecked(log: Logger, domains: readonly string[], reason: string): void {
  log.warn({ event: 'mx_unchecked', domains, reason }, 'a contact is accepted although its mail domain was not checked')
}
