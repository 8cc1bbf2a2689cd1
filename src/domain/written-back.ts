/** Entries that a fail-over took from the audit log, and that were written back at its end: which, of when, as which. Pure. */

import { utcText } from './action-words.ts'

export interface WrittenBack {
  entries: number
  /** Sentences; at most `MOST_SPANS`. */
  spans: readonly string[]
}

interface Entry {
  sequence: number
  /** `sequence` and `at` of the former entry. */
  details: Readonly<Record<string, unknown>>
  createdAt: Date
}

interface Span {
  entries: number
  /** Former numbers in the chain. */
  former: [first: number, last: number]
  /** Times of the entries, where they have some. */
  of: Date[]
  now: [first: number, last: number]
  at: Date
}

const MOST_SPANS = 20

export class WrittenBackEntries {
  readonly #spans: Span[] = []
  #last: Span | undefined
  #entries = 0

  /** In the order of the chain. */
  add({ sequence, details, createdAt }: Entry): void {
    const former = Number(details['sequence'])
    const decidedAt = new Date(String(details['at']))
    const of = Number.isNaN(decidedAt.getTime()) ? [] : [decidedAt]
    this.#entries += 1
    const last = this.#last
    if (last && last.now[1] + 1 === sequence && last.former[1] < former) {
      last.entries += 1
      last.former[1] = former
      last.now[1] = sequence
      last.of = [...last.of.slice(0, 1), ...of]
      return
    }
    this.#last = { entries: 1, former: [former, former], of, now: [sequence, sequence], at: createdAt }
    if (this.#spans.length < MOST_SPANS) this.#spans.push(this.#last)
  }

  /** Undefined without any. */
  report(): WrittenBack | undefined {
    return this.#entries > 0 ? { entries: this.#entries, spans: this.#spans.map(sentenceOf) } : undefined
  }
}

function sentenceOf({ entries, former, of, now, at }: Span): string {
  const [from, to] = [of.at(0), of.at(-1)]
  const when = from && to ? `, of ${from === to ? utcText(from) : `${utcText(from)} to ${utcText(to)}`},` : ''
  const [what, was, is] =
    entries === 1 ? [`entry ${former[0]}`, 'was', 'is'] : [`${entries} entries, ${former.join(' to ')}`, 'were', 'are']
  const as = entries === 1 ? `${now[0]}` : now.join(' to ')
  const comma = entries > 1 && when === '' ? ',' : ''
  return `${what}${when}${comma} ${was} lost by a fail-over and ${is} written back as ${as} at ${utcText(at)}`
}
