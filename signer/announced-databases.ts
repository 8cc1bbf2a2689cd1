/**
 * Which databases the services of this signer work on, as each announces its own every ANNOUNCE_MS. It is remembered for a minute.
 *
 * Two are in use together when both were announced an interval after the second was first seen. A promoted standby has another
 * incarnation than what it replaces, and that is announced no more.
 */

import { ANNOUNCE_MS, type MethodParams, type MethodResult } from './protocol/methods.ts'

const REMEMBERED_MS = 60_000
/** A front that was taken over may announce any number. */
const MOST = 16
/** A database that was not announced for this long is not in use, or its service is busy. */
const SILENT_MS = 2 * ANNOUNCE_MS

interface Announced {
  database: string
  incarnation: string
  requester: string
  firstAt: number
  lastAt: number
}

export class AnnouncedDatabases {
  #known: Announced[] = []

  /** @param now of a clock that does not jump, in milliseconds */
  announce(params: MethodParams<'announceDatabase'>, now: number): MethodResult<'announceDatabase'> {
    const { database, incarnation, requester, remember } = params
    this.#known = this.#known.filter(({ lastAt }) => now - lastAt < REMEMBERED_MS)
    const isOwn = (one: Announced) => one.database === database && one.incarnation === incarnation
    const rest = this.#known.filter((one) => !isOwn(one))
    const known = this.#known.find(isOwn)
    const seen = { database, incarnation, requester, firstAt: known?.firstAt ?? now, lastAt: now }
    if (remember) this.#known = [...rest, seen].slice(-MOST)
    const own = remember ? seen : known
    const isSilent = ({ lastAt }: Announced) => now - lastAt >= SILENT_MS
    const others = rest.filter((one) => (own ? areTogether(own, one) : !isSilent(one)))
    return {
      others: others.map((one) => ({ database: one.database, incarnation: one.incarnation, requester: one.requester })),
      settled: rest.every((one) => others.includes(one) || isSilent(one)),
    }
  }
}

function areTogether(one: Announced, other: Announced): boolean {
  return Math.min(one.lastAt, other.lastAt) - Math.max(one.firstAt, other.firstAt) >= ANNOUNCE_MS
}
