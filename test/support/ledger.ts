/**
 * The costs of a run of the tests, by file, ring and part, beside the ledger that the repository keeps (`test/times.tsv`).
 * It reports and fails nothing.
 */

import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { FileResult } from './test-process.ts'
import type { UsedPart } from './used-parts.ts'

export interface Cost {
  /** Files of a ring, tests of a file, uses of a part. */
  count: number
  cpu: number
  seconds: number
}

/** `run all`, `ring unit`, `part service` or `file test/…` → its cost. */
export type Ledger = Map<string, Cost>

const HEAD = ['what', 'name', 'count', 'CPU s', 'seconds'].join('\t')
/** Files below are in their ring's sum alone: half of them would differ at each run. */
const LEAST_KEPT_SECONDS = 1

export function ledgerOf(
  processes: readonly { ring: { name: string }; files: readonly FileResult[]; parts: readonly UsedPart[] }[],
  whole: { cpu: number; seconds: number },
): Ledger {
  const ledger: Ledger = new Map()
  const add = (key: string, { count, cpu, seconds }: Cost) => {
    const known = ledger.get(key) ?? { count: 0, cpu: 0, seconds: 0 }
    ledger.set(key, { count: known.count + count, cpu: known.cpu + cpu, seconds: known.seconds + seconds })
  }
  add('run\tall', { count: processes.reduce((sum, { files }) => sum + files.length, 0), ...whole })
  for (const { ring, files } of processes)
    for (const { cpu, seconds } of files) add(`ring\t${ring.name}`, { count: 1, cpu, seconds })
  for (const { kind, cpu, seconds } of processes.flatMap(({ parts }) => parts))
    add(`part\t${kind}`, { count: 1, cpu, seconds })
  for (const { file, passed, failed, skipped, cpu, seconds } of processes.flatMap(({ files }) => files))
    add(`file\t${file}`, { count: passed + failed + skipped, cpu, seconds })
  return ledger
}

const shown = (number: number) => number.toFixed(1)

export function ledgerText(ledger: Ledger, date = new Date()): string {
  const about = [
    `# npm test -- --all --keep, ${date.toISOString().slice(0, 10)}, Node.js ${process.version}`,
    `${availableParallelism()} processors, patience ${process.env['CHANCERY_TEST_PATIENCE']}`,
  ].join(', ')
  const rows = [...ledger]
    .filter(([key, { cpu, seconds }]) => !key.startsWith('file') || Math.max(cpu, seconds) >= LEAST_KEPT_SECONDS)
    .map(([key, { count, cpu, seconds }]) => [key, count, shown(cpu), shown(seconds)].join('\t'))
  return `${[about, HEAD, ...rows].join('\n')}\n`
}

/** Empty where there is none. */
export function readLedger(file: string): Ledger {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
  const rows = lines
    .filter((line) => line !== '' && line !== HEAD && !line.startsWith('#'))
    .map((line) => line.split('\t'))
  return new Map(
    rows.map(([what, name, count, cpu, seconds]) => [
      `${what}\t${name}`,
      { count: Number(count), cpu: Number(cpu), seconds: Number(seconds) },
    ]),
  )
}

/** What differs by more than a run does from the next. */
const LEAST_CHANGE_SECONDS = 2
const LEAST_CHANGE = 0.25

function hasChanged(before: Cost, { count, cpu }: Cost): boolean {
  const change = Math.abs(cpu - before.cpu)
  return count !== before.count || (change > LEAST_CHANGE_SECONDS && change > before.cpu * LEAST_CHANGE)
}

const row = (key: string, { count, cpu, seconds }: Cost, rest = '') =>
  `${shown(cpu).padStart(8)} ${shown(seconds).padStart(8)} ${String(count).padStart(6)}  ${key.replace('\t', ' ')}${rest}`

/** All of it, the dearest file first, and what changed. */
export function ledgerReport(now: Ledger, before: Ledger): string[] {
  const entries = [...now]
  const files = entries.filter(([key]) => key.startsWith('file')).sort(([, a], [, b]) => b.cpu - a.cpu)
  const sums = entries.filter(([key]) => !key.startsWith('file'))
  const changed = entries.flatMap(([key, cost]) => {
    const former = before.get(key)
    if (former === undefined || !hasChanged(former, cost)) return []
    return [row(key, cost, ` (before: ${shown(former.cpu)} s of CPU, ${shown(former.seconds)} s, ${former.count})`)]
  })
  const head = `${'CPU s'.padStart(8)} ${'seconds'.padStart(8)} ${'count'.padStart(6)}`
  return [
    head,
    ...[...files, ...sums].map(([key, cost]) => row(key, cost)),
    ...(changed.length > 0 ? ['changed against test/times.tsv:', head, ...changed] : []),
  ]
}
