/** Messages and questions of a front thread to the supervisor. */

import type { Logger } from 'pino'
import { MAX_DECISIONS } from '../../ca/signer-records.ts'
import { csrBackendNames } from '../../config/backends.ts'
import type { Decision } from '../../domain/decision.ts'
import { RefusalTally } from '../../events/abuse-summary.ts'
import { type ActorRef, batchPerTick } from '../../runtime/actor.ts'
import type { AskForCaa } from '../../services/caa-freshness.ts'
import type { AttemptEnded, DispatchValidation, ValidationRequest } from '../../services/challenge-triggers.ts'
import type { CsrOutcome } from '../../services/csr-step.ts'
import { type NoteAcmeAct, noteAcmeActs } from '../../services/decisions/acme-decisions.ts'
import type { AskForMailDomains } from '../../services/registration.ts'
import { caaCheckMs, mailDomainSettings } from '../../settings/validation-settings.ts'
import { caaAnswerDeadlineMs, mailDomainsThrough } from '../../validation/dns-checks.ts'
import type { FrontThreadData, SupervisorMessages } from '../messages.ts'

type Config = FrontThreadData['config']
type Supervisor = ActorRef<SupervisorMessages>

/** Exceeds the longest wait of a finalize. */
const ISSUING_DEADLINE_MS = 120_000
/** The recorder gives the signer two seconds, then writes its file. */
const DECISIONS_DEADLINE_MS = 5_000
const REFUSALS_REPORT_MS = 5_000

/** Hands over all validations of one tick in one message. */
export function validationsThrough(
  supervisor: Supervisor,
  front: number,
  log: Logger,
  onLost: (attempts: readonly AttemptEnded[]) => void,
): DispatchValidation {
  return batchPerTick<ValidationRequest>((requests) => {
    try {
      supervisor.tell('validate', { front, requests })
    } catch (error) {
      // The claims stay in the database, and the challenge worker adopts them later.
      const authorizationIds = requests.map(({ authorizationId }) => authorizationId)
      log.warn({ authorizationIds, err: error }, 'validations could not be handed over')
      onLost(requests.map(({ authorizationId }) => ({ authorizationId })))
    }
  })
}

export function caaThrough(supervisor: Supervisor, config: Config): AskForCaa {
  const deadlineMs = caaAnswerDeadlineMs(caaCheckMs(config))
  return (request) => supervisor.ask('caa', request, deadlineMs)
}

interface Noting {
  decision: Decision
  settle(reason: Promise<string | undefined>): void
}

/** Accounts of one statement are noted in one message, as many as the signer takes at once. */
export function decisionsThrough(supervisor: Supervisor): NoteAcmeAct {
  const note = batchPerTick<Noting>((all) => {
    for (let at = 0; at < all.length; at += MAX_DECISIONS) {
      const acts = all.slice(at, at + MAX_DECISIONS)
      const decisions = acts.map(({ decision }) => decision)
      const reason = supervisor.ask('noteDecisions', decisions, DECISIONS_DEADLINE_MS)
      for (const { settle } of acts) settle(reason)
    }
  })
  return noteAcmeActs((decision) => new Promise((settle) => note({ decision, settle })))
}

/** @returns undefined when mail domains are not checked */
export function mailDomainsOf(supervisor: Supervisor, config: Config, log: Logger): AskForMailDomains | undefined {
  const ask = (domains: readonly string[], deadlineMs: number) => supervisor.ask('mailDomains', domains, deadlineMs)
  return mailDomainsThrough(ask, config.email.validate_mx ? mailDomainSettings(config).timeoutMs : undefined, log)
}

/** @returns undefined when the signer signs everything */
export function csrIssuancesThrough(supervisor: Supervisor, config: Config, log: Logger) {
  if (csrBackendNames(config).length === 0) return undefined
  return (certificateId: string): Promise<CsrOutcome> =>
    supervisor.ask('issueFromCsr', certificateId, ISSUING_DEADLINE_MS).catch((error: unknown) => {
      // The row is in the database, and a round of the supervisor finds it.
      log.debug({ certificateId, err: error }, 'an issuance could not be handed over')
      return 'pending'
    })
}

export interface Refusals {
  tally: RefusalTally
  /** Tells the supervisor what was counted since the last report. */
  report(): void
}

/** Sums of the thread go to the supervisor, which has one summary for the instance. */
export function refusalsTo(supervisor: Supervisor, log: Logger): Refusals {
  const tally = new RefusalTally()
  const report = () => {
    const counts = tally.take()
    if (!counts) return
    try {
      supervisor.tell('refusals', counts)
    } catch (error) {
      log.debug({ err: error }, 'counts of refusals were lost')
    }
  }
  setInterval(report, REFUSALS_REPORT_MS).unref()
  return { tally, report }
}
