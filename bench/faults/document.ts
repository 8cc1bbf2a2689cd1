/** The results of a run, with a row for each kind of fault. They are the JSON file, and text and page show them. */

import type { Books } from './books.ts'
import type { Happened, Run } from './conduct.ts'
import { type Finding, TROUBLES, type Trouble, type Unpromised } from './finding.ts'
import { KINDS } from './kinds/table.ts'

interface Attributed extends Finding {
  /** Index of the fault by which it happened; undefined for one before all faults. */
  fault: number | undefined
}

interface Sorted {
  findings: Attributed[]
  unpromised: (Attributed & { unpromised: Unpromised })[]
}

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

/** Finds the fault of each finding, and what nobody was promised: the database may have gone back in time. */
function attribute(found: readonly Finding[], faults: readonly Happened[]): Sorted {
  const sorted: Sorted = { findings: [], unpromised: [] }
  for (const finding of found) {
    const { unpromised } = finding
    const fault = causeOf(finding, faults)
    if (unpromised !== undefined && fault !== undefined && goesBack(faults[fault]))
      sorted.unpromised.push({ ...finding, unpromised, fault })
    else sorted.findings.push({ ...finding, fault })
  }
  return sorted
}

/** The last fault that was running then, until it was recovered from; else the last one before. */
function causeOf({ at, since = at, unpromised }: Finding, faults: readonly Happened[]): number | undefined {
  const running = faults.flatMap((fault, index) => (fault.beganAt <= at && recoveredAt(fault) >= since ? [index] : []))
  const back = unpromised && running.findLast((index) => goesBack(faults[index]))
  const index = back ?? running.at(-1) ?? faults.findLastIndex(({ beganAt }) => beganAt <= at)
  return index < 0 ? undefined : index
}

const recoveredAt = ({ endedAt, recoveryMs = Number.POSITIVE_INFINITY }: Happened) => endedAt + recoveryMs
const goesBack = (fault: Happened | undefined) => fault !== undefined && KINDS[fault.kind]?.goesBack === true

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
