/**
 * New issuers for a running daemon: SIGHUP rereads the configuration and replaces all issuers or none. Token keys with
 * an unchanged configuration stay open. Running requests end with the issuer they began with.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { SignerConfig } from './config.ts'
import { closeKeys, type Issuer, type IssuerOptions, loadIssuers } from './issuers.ts'
import type { SigningService } from './signing.ts'

const DAY_MS = 86_400_000
/** The service has the same bounds for its alarms (src/domain/alarms.ts). */
const WARNING_DAYS = 90

type Times = Pick<Issuer, 'id' | 'notBefore' | 'notAfter' | 'chainEndsAt'>

interface TimeFindings {
  /** Reasons why it cannot be used now. */
  errors: string[]
  warnings: string[]
}

const isUsable = ({ notBefore, notAfter }: Times, now: Date): boolean => notBefore <= now && now <= notAfter

/** An issuer that has run out still signs its CRLs. @throws Error when no issuer can issue now */
export function reportTimes(
  issuers: readonly Times[],
  now: Date,
  log: Record<'error' | 'warn', (sentence: string) => void>,
): void {
  const { errors, warnings } = findTimes(issuers, now)
  if (!issuers.some((issuer) => isUsable(issuer, now))) throw new Error(errors.join('\n'))
  for (const sentence of errors) log.error(sentence)
  for (const sentence of warnings) log.warn(sentence)
}

export function findTimes(issuers: readonly Times[], now: Date): TimeFindings {
  const findings: TimeFindings = { errors: [], warnings: [] }
  const judge = (what: string, end: Date) => {
    if (end < now) findings.errors.push(`${what} expired since ${end.toISOString()}`)
    else if (end.getTime() - now.getTime() < WARNING_DAYS * DAY_MS)
      findings.warnings.push(`${what} ends at ${end.toISOString()}`)
  }
  for (const { id, notBefore, notAfter, chainEndsAt } of issuers) {
    if (notBefore > now)
      findings.errors.push(`issuer ${id}: its certificate is not valid before ${notBefore.toISOString()}`)
    judge(`issuer ${id}: its certificate`, notAfter)
    if (chainEndsAt) judge(`issuer ${id}: a certificate above it in a chain`, chainEndsAt)
  }
  return findings
}

/** A signature may wait for a replaced key until its deadline or for `session_wait`, by default 30 s. */
const LAST_USE_MS = 30_000

interface RolloverOptions {
  service: SigningService
  issuerOptions: Omit<IssuerOptions, 'running'>
  /** The configuration at the daemon's start. */
  started: SignerConfig
  log: Logger
}

export class IssuerRollover {
  readonly #service: SigningService
  readonly #issuerOptions: Omit<IssuerOptions, 'running'>
  readonly #started: SignerConfig
  readonly #log: Logger
  #last: Promise<void> = Promise.resolve()

  constructor({ service, issuerOptions, started, log }: RolloverOptions) {
    this.#service = service
    this.#issuerOptions = issuerOptions
    this.#started = started
    this.#log = log
  }

  /** Runs one change after the other. A failure is logged and changes nothing. */
  apply(reread: () => SignerConfig): void {
    this.#last = this.#last
      .then(() => this.#replace(reread()))
      .catch((error: Error) => this.#log.error({ reason: error.message }, 'the issuers stay as they are'))
  }

  /** Resolves when no replacement is under way. */
  settled(): Promise<void> {
    return this.#last
  }

  async #replace(config: SignerConfig): Promise<void> {
    const running = this.#service.issuers
    const issuers = await loadIssuers(config.issuers, { ...this.#issuerOptions, running })
    reportTimes([...issuers.values()], new Date(), this.#log)
    this.#service.issuers = issuers

    const { issuers: _, ...rest } = config
    const { issuers: __, ...before } = this.#started
    const needRestart = (Object.keys(rest) as (keyof typeof rest)[]).filter(
      (key) => !isDeepStrictEqual(rest[key], before[key]),
    )
    const removed = [...running.keys()].filter((id) => !issuers.has(id))
    if (needRestart.length > 0) this.#log.warn({ keys: needRestart }, 'changed keys that need a restart')
    if (removed.length > 0)
      this.#log.warn({ removed }, 'issuers that are gone; what waits for their signature will fail')
    // Log the result of the signal at any `log.level`.
    this.#log.child({}, { level: 'info' }).info({ issuers: [...issuers.keys()] }, 'issuers read again')
    await closeKeys(running, issuers, LAST_USE_MS)
  }
}
