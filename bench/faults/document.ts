/** What a run comes to: a row for each kind of fault. It is the JSON file, and what text and page show. */

import type { Books } from './books.ts'
import { type Attributed, attribute, type Sorted } from './causes.ts'
import type { Happened, Run } from './conduct.ts'
import { type Finding, TROUBLES, type Trouble, type Unpromised } from './finding.ts'

export interface Row extends Record<Trouble, number>, Record<Unpromised, number> {
  kind: string
  times: number
  /** Seconds, as in `Happened`; undefined when one of them never was. */
  recovery: { median: number; longest: number } | undefined
  longestSilence: number
}

/** `version` rises when a reader would break. */
export interface FaultsDocument {
  format: 'chancery-faults'
  version: 1
  command: string[]
  seed: number
  startedAt: string
  endedAt: string
  rows: Row[]
  total: Record<Trouble, number>
  books: Omit<Books, 'findings'>
  findings: Attributed[]
  /** No findings: the database had gone back in time. */
  unpromised: Sorted['unpromised']
  faults: Happened[]
  deaths: Run['deaths']
  soak: Run['soak']
  acts: Run['acts']
  /** Certificates obtained in each second from the start. */
  certificatesBySecond: number[]
}

export function documentOf(command: string[], seed: number, run: Run): FaultsDocument {
  const { findings: found, ...books } = run.books
  const { findings, unpromised } = attribute(found, run.faults)
  const count = (of: readonly Finding[]) =>
    Object.fromEntries(
      TROUBLES.map((trouble) => [trouble, of.filter((finding) => finding.trouble === trouble).length]),
    ) as Record<Trouble, number>
  const kinds = [...new Set(run.faults.map(({ kind }) => kind))].sort()
  const rows = kinds.map((kind): Row => {
    const faults = run.faults.filter((fault) => fault.kind === kind)
    const times = faults.map(({ recoveryMs }) => recoveryMs)
    const known = times.filter((ms) => ms !== undefined).sort((a, b) => a - b)
    const isOfKind = ({ fault }: Attributed) => fault !== undefined && run.faults[fault]?.kind === kind
    const ofKind = unpromised.filter(isOfKind)
    const amount = (what: Unpromised) => ofKind.filter((one) => one.unpromised === what).length
    return {
      kind,
      times: faults.length,
      ...count(findings.filter(isOfKind)),
      forgotten: amount('forgotten'),
      repeated: amount('repeated'),
      recovery:
        known.length < times.length
          ? undefined
          : { median: known[known.length >> 1]! / 1000, longest: known.at(-1)! / 1000 },
      longestSilence: Math.max(...faults.map(({ silenceMs }) => silenceMs)) / 1000,
    }
  })
  return {
    format: 'chancery-faults',
    version: 1,
    command,
    seed,
    startedAt: new Date(run.startedAt).toISOString(),
    endedAt: new Date(run.endedAt).toISOString(),
    rows,
    total: count(findings),
    books,
    findings,
    unpromised,
    faults: run.faults,
    deaths: run.deaths,
    soak: run.soak,
    acts: run.acts,
    certificatesBySecond: bySecond(run),
  }
}

/** Nothing is at odds, every fault was recovered from, no part ended by itself, and nothing rises in a soak. */
export function isGood({ total, faults, deaths, soak }: FaultsDocument): boolean {
  if (soak?.verdicts.some(({ isFlat }) => !isFlat)) return false
  const areRecovered = faults.every(({ recoveryMs }) => recoveryMs !== undefined)
  return TROUBLES.every((trouble) => total[trouble] === 0) && areRecovered && deaths.length === 0
}

function bySecond({ startedAt, endedAt, flows }: Run): number[] {
  const counts = new Array<number>(Math.ceil((endedAt - startedAt) / 1000)).fill(0)
  for (const { at } of flows) {
    const second = Math.floor((at - startedAt) / 1000)
    if (counts[second] !== undefined) counts[second]++
  }
  return counts
}
