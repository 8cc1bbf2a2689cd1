/** CAA checks from the configuration: the job of one check, and the supervisor's side of those that finalize asks for. */

import { hash } from 'node:crypto'
import type { Logger } from 'pino'
import type { CaaFinding, CaaJob } from '../../../workers/job.ts'
import { WorkerPoolError } from '../../../workers/pool-error.ts'
import { caaIdentities } from '../../config/issuer-names.ts'
import type { Config } from '../../config/schema.ts'
import { boundSteps } from '../../domain/validation-evidence.ts'
import type { Metrics } from '../../ops/metrics.ts'
import type { AskForCaa, CaaCheckRequest } from '../../services/caa-freshness.ts'
import { LruMap } from '../../shared/lib/lru.ts'
import { Urls } from '../../shared/protocol/urls.ts'
import { normalPattern } from '../settings/orders.ts'
import { urlSettings } from '../settings/server.ts'
import { caaTimeoutMs, corroborationMs, isCaaEnforced } from '../settings/validation.ts'
import { type CaaJobFactory, dnsSettings } from './jobs.ts'

/**
 * Checks for finalize that may run at the same time. They occupy the supervisor's actor, which health, metrics and the
 * hand-over of validations go through as well: name servers that do not answer must leave most of it free.
 */
const MAX_AT_ONCE = 24
/** Of one account: whose names have silent name servers can finalize over and over, and must leave places to the others. */
const MAX_OF_ACCOUNT = MAX_AT_ONCE / 4

/**
 * Refusals that are remembered: who has been refused the same names so often within a minute is told so again without a
 * look-up. A holder who mends the records between two tries does not notice.
 */
const REFUSED_LOOKS = 3
const REFUSED_MS = 60_000
const REFUSALS = 256

/** How long the pool may let a check wait before the front gives it up. */
const QUEUE_MS = 5_000

/** Undefined where CAA is not enforced. */
export function createCaaJobFactory(config: Config): CaaJobFactory | undefined {
  if (!isCaaEnforced(config)) return undefined
  const urls = new Urls(urlSettings(config))
  const settings = caaSettings(config)
  return (accountId, subjects) => ({ ...settings, subjects, accountUri: urls.numbered('account', accountId) })
}

/** What every check of this configuration has in common. */
export function caaSettings(config: Config): Omit<CaaJob, 'subjects' | 'accountUri'> {
  const { caa_identities, caa_unreachable_ok } = config.acme
  const dns = dnsSettings(config)
  return {
    identities: caaIdentities(caa_identities),
    unreachableOk: caa_unreachable_ok.map(normalPattern),
    timeoutMs: caaTimeoutMs(config),
    // A look-up counts as failed only when it was repeated (BR 3.2.2.8).
    dns: dns.retries > 0 ? dns : { ...dns, retries: 1 },
  }
}

/** After this a front stops waiting for the supervisor. */
export function caaAnswerDeadlineMs(config: Config): number {
  return caaTimeoutMs(config) + corroborationMs(config) + QUEUE_MS
}

export interface CaaChecksOptions {
  jobFor: CaaJobFactory | undefined
  checkCaa(job: CaaJob): Promise<CaaFinding[]>
  metrics: Metrics
  log: Logger
}

interface Refusal {
  findings: readonly CaaFinding[]
  looks: number
  /** `performance.now()` of the first of these looks. */
  since: number
}

const isRefusal = ({ result }: CaaFinding) => result === 'forbidden' || result === 'failed'

/** By account and names: the records may name the account. Gives what is to be said without a look, if anything is. */
function createRefusals(clock: () => number) {
  const refusals = new LruMap<string, Refusal>(REFUSALS)
  const keyOf = ({ accountId, subjects }: CaaCheckRequest) => hash('sha256', JSON.stringify([accountId, subjects]))
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

/** Answers undefined when too many run already, in all or of this account, or the workers gave no verdict. */
export function createCaaChecks(
  { jobFor, checkCaa, metrics, log }: CaaChecksOptions,
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
    const found = await check(accountId, jobFor(accountId, subjects))
    if (!found) return undefined
    for (const { result } of found) metrics.caaChecks.inc({ result })
    const { steps, omitted } = boundSteps(found.flatMap(({ evidence }) => evidence))
    const line = { event: 'caa_check', accountId, orderId, evidence: steps, ...(omitted && { omitted }) }
    log.info(line, 'CAA records checked before issuance')
    // The log alone wants the evidence, which can be a megabyte.
    const findings = found.map((finding) => ({ ...finding, evidence: [] }))
    refusals.note(request, findings)
    return findings
  }
}
