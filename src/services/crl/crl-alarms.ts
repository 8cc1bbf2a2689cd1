/** When a list that is not published becomes an alarm: each trouble of a list once, until it is over. */

import { CLOCKS_DIFFER_MS } from '../../shared/lib/clocks.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import type { PublishedCrl } from '../../store/crl-store.ts'
import { MalformedCrl } from './crl-build.ts'

export interface CrlAlarm {
  crl: string
  message: string
  reason: string
}

interface OverdueCrl extends Pick<PublishedCrl, 'thisUpdate' | 'nextUpdate' | 'isAhead'> {
  name: string
}

/**
 * Why a list should have been replaced: `late`, or `ahead` of the clock of the database alone. Clients take the latter, and
 * an instance that serves it stays ready: else a database whose clock went back would take all of them out.
 *
 * @param dueAt when it should have been, and `graceMs` later it is late; undefined without a schedule
 */
export function troubleOf(
  {
    thisUpdate,
    nextUpdate,
    startedAt,
    isAhead,
  }: Pick<PublishedCrl, 'thisUpdate' | 'nextUpdate' | 'startedAt' | 'isAhead'>,
  now: number,
  { dueAt, graceMs }: { dueAt: number | undefined; graceMs: number },
): 'late' | 'ahead' | undefined {
  const isLate = dueAt !== undefined && startedAt.getTime() < dueAt && now > dueAt + graceMs
  if (isLate || now >= nextUpdate.getTime() || now < thisUpdate.getTime() - CLOCKS_DIFFER_MS) return 'late'
  return isAhead ? 'ahead' : undefined
}

/** Seven seconds of attempts: a signer or a database that restarts is no alarm. */
const FAILURES_IN_A_ROW = 4

interface Failing {
  times: number
  /** Messages of alarms that were raised. */
  raised: Set<string>
}

export class CrlAlarms {
  readonly #raise: (alarm: CrlAlarm) => void
  readonly #failing = new Map<string, Failing>()
  #overdue: ReadonlySet<string> = new Set()

  constructor(raise: (alarm: CrlAlarm) => void) {
    this.#raise = raise
  }

  failed(crl: string, error: unknown): void {
    const { times, raised } = this.#failing.get(crl) ?? { times: 0, raised: new Set<string>() }
    this.#failing.set(crl, { times: times + 1, raised })
    const isMalformed = error instanceof MalformedCrl
    if (!isMalformed && times + 1 < FAILURES_IN_A_ROW) return
    const message = isMalformed ? 'a CRL failed its lint and was not signed' : 'a CRL cannot be published'
    if (raised.has(message)) return
    raised.add(message)
    this.#raise({ crl, message, reason: messageOf(error) })
  }

  published(crl: string): void {
    this.#failing.delete(crl)
  }

  /** @param crls all that should have been replaced by now */
  overdue(crls: readonly OverdueCrl[]): void {
    const former = this.#overdue
    this.#overdue = new Set(crls.map(({ name }) => name))
    for (const { name, thisUpdate, nextUpdate, isAhead } of crls) {
      if (former.has(name)) continue
      const isOfFuture = isAhead || thisUpdate.getTime() > Date.now() + CLOCKS_DIFFER_MS
      const reason = isOfFuture
        ? `its thisUpdate is ahead of the clock of ${isAhead ? 'the database' : 'this instance'}: a clock was wrong, or is`
        : `no new list was published in time; nextUpdate is ${nextUpdate.toISOString()}`
      this.#raise({ crl: name, message: 'a CRL is overdue', reason })
    }
  }
}
