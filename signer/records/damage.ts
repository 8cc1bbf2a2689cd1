/**
 * Finds damaged lines in the files of a record stream. Each look reads the current file and one closed file, two times 8 MiB at
 * most. The next look takes the closed file before that one, so all are read in turn.
 */

import { setImmediate as pause } from 'node:timers/promises'
import { type Damage, type LineTable, parseRecordLine, sumOf, UNDAMAGED } from './line-table.ts'
import { STREAMS, type StreamName } from './record.ts'
import type { RecordStream } from './record-stream.ts'

/** Least time between two looks: each takes 0.2 s of CPU. */
const LOOK_MS = 5_000
/** These take 1 ms. Then signatures have their turn. */
const LINES_AT_ONCE = 64

class DamageSearch {
  readonly #stream: RecordStream
  /** In closed files, by their first sequence number. */
  readonly #found = new Map<number, Damage>()
  #before = Number.POSITIVE_INFINITY

  constructor(stream: RecordStream) {
    this.#stream = stream
  }

  /** @returns all that is known of the files that are there */
  async look(): Promise<Damage> {
    const { closed, cutOff } = this.#stream
    const segment = closed.all.findLast(({ first }) => first < this.#before) ?? closed.newest
    if (segment) {
      this.#before = segment.first
      const { first } = segment
      const unreadable = { lines: 1, first }
      const found = await closed.read(segment).then(damageInClosed, () => unreadable)
      this.#found.set(first, found ?? unreadable)
    }
    const current = await this.#inCurrent()
    for (const first of this.#found.keys())
      if (!closed.all.some((one) => one.first === first)) this.#found.delete(first)
    return sumOf([cutOff, ...this.#found.values(), current])
  }

  /** Nothing where the file was closed meanwhile: the next look reads it as a closed one. */
  async #inCurrent(): Promise<Damage> {
    const { lines } = this.#stream
    const found = await damageIn(lines, () => this.#stream.lines === lines)
    return this.#stream.lines === lines ? sumOf([lines.damage, found]) : UNDAMAGED
  }
}

/** @returns undefined where it cannot be unpacked */
async function damageInClosed(table: LineTable): Promise<Damage | undefined> {
  if (table.count === 0) return undefined
  return sumOf([table.betweenLines, await damageIn(table, () => true)])
}

async function damageIn(table: LineTable, isStillThere: () => boolean): Promise<Damage> {
  let damage = UNDAMAGED
  for (let at = 0; at < table.count; at++) {
    if (at % LINES_AT_ONCE === 0) await pause()
    if (!isStillThere()) break
    if (!parseRecordLine(table.textAt(at))) damage = sumOf([damage, { lines: 1, first: table.keyAt(at).seq }])
  }
  return damage
}

type StreamDamage = Record<StreamName, Damage>

/** @param report is called once for each stream, and again when there is more */
export function damageOf(
  streams: Record<StreamName, RecordStream>,
  report: (stream: string, damage: Damage) => void,
): () => Promise<StreamDamage> {
  const searches = STREAMS.map((name) => ({ name, search: new DamageSearch(streams[name]), reported: 0 }))
  let last: { at: number; found: Promise<StreamDamage> } | undefined
  const look = async () => {
    const found: [string, Damage][] = []
    for (const one of searches) {
      const damage = await one.search.look()
      if (damage.lines > one.reported) report(one.name, damage)
      one.reported = Math.max(one.reported, damage.lines)
      found.push([one.name, damage])
    }
    return Object.fromEntries(found) as StreamDamage
  }
  return () => {
    if (!last || performance.now() - last.at > LOOK_MS) last = { at: performance.now(), found: look() }
    return last.found
  }
}
