/** The JSON file: everything a run measured, with what a reader needs to judge it; and the HTML page that loads it. */

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg, release, totalmem } from 'node:os'
import path from 'node:path'
import type { Slot } from '../measure/stats.ts'
import { CURVE_PERCENTS, type Latency } from '../measure/stats.ts'
import type { Plan } from '../options.ts'
import { OWN_ROOT } from '../servers/build.ts'
import type { Subject } from '../servers/chancery.ts'
import type { Result } from './result.ts'
import { LABELS, type Measured } from './summary.ts'
import type { Table } from './table.ts'
import { ROLE_NAMES } from './text.ts'

/** `version` rises when a reader would break. */
export interface BenchDocument {
  format: 'chancery-bench'
  version: 2
  /** Arguments of the command. */
  command: string[]
  startedAt: string
  endedAt: string
  /** The signal that ended it early: what follows is what was measured until then. */
  interruptedBy: string | undefined
  /** Commit of the bench itself; undefined outside a git work tree. */
  commit: string | undefined
  /** Version in its package.json. */
  release: string
  machine: ReturnType<typeof describeMachine>
  /** Where the curves of results are taken. */
  curvePercents: readonly number[]
  /** For people: names of figures and roles. */
  labels: typeof LABELS
  roles: typeof ROLE_NAMES
  /** In the order in which rounds and figures list them: A, B, … */
  servers: Subject[]
  measurements: Measured[]
  overload: OverloadResult[]
  /** Undefined for other scenarios. */
  table: Table | undefined
}

export interface OverloadResult {
  server: string
  /** The closed loop that found the maximum, and the open loop of calm, flood and calm. */
  maximum: Result
  run: Result
  /** Arrivals a second. */
  offered: { calm: number; flood: number }
  /** Successes a second in the flood by the maximum: in all of it, and in its worst five seconds. */
  goodputShare: number
  worstGoodputShare: number
  /** How the arrivals of the flood ended. */
  flood: Omit<Slot, 'latency'>
  latency: { before: Latency; flood: Latency; after: Latency }
  /** From the end of the flood until latency is what it was before; undefined when it never was. */
  recoverySeconds: number | undefined
}

/** The parts that a command has measured; the others are empty. */
export type Parts = Pick<BenchDocument, 'servers'> & Partial<Pick<BenchDocument, 'measurements' | 'overload' | 'table'>>

/** @returns a function that makes the document when the run has ended */
export function beginDocument(command: string[]) {
  const startedAt = new Date().toISOString()
  // The work tree may be another one when a long run ends.
  const [commit, machine] = [ownCommit(), describeMachine()]
  return (parts: Parts, interruptedBy: string | undefined): BenchDocument => ({
    format: 'chancery-bench',
    version: 2,
    command,
    startedAt,
    endedAt: new Date().toISOString(),
    interruptedBy,
    commit,
    release: (JSON.parse(readFileSync(path.join(OWN_ROOT, 'package.json'), 'utf8')) as { version: string }).version,
    machine,
    curvePercents: CURVE_PERCENTS,
    labels: LABELS,
    roles: ROLE_NAMES,
    measurements: [],
    overload: [],
    table: undefined,
    ...parts,
  })
}

/** @throws Error when a file cannot be written */
export function writeFiles(plan: Pick<Plan, 'jsonFile' | 'figuresFile' | 'htmlFile'>, content: BenchDocument): void {
  const { jsonFile, figuresFile, htmlFile } = plan
  if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(content, null, 2)}\n`)
  if (figuresFile !== undefined)
    writeFileSync(figuresFile, `${JSON.stringify({ ...content, measurements: [] }, shortNumber, 2)}\n`)
  if (htmlFile !== undefined) writeFileSync(htmlFile, renderHtml(content))
}

/** Short enough to read a change of the file. */
function shortNumber(_name: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value
}

/** One page that needs nothing else: template, script, uPlot and the data in it. */
export function renderHtml(content: BenchDocument): string {
  const uplot = path.dirname(createRequire(import.meta.url).resolve('uplot/package.json'))
  const own = path.join(OWN_ROOT, 'bench/report')
  const parts: Readonly<Record<string, string>> = {
    'uplot.css': readFileSync(path.join(uplot, 'dist/uPlot.min.css'), 'utf8'),
    'uplot.js': readFileSync(path.join(uplot, 'dist/uPlot.iife.min.js'), 'utf8'),
    'page.js': readFileSync(path.join(own, 'page.js'), 'utf8'),
    // "<" would end the script element early.
    data: JSON.stringify(content).replaceAll('<', '\\u003c'),
  }
  const template = readFileSync(path.join(own, 'page.html'), 'utf8')
  return template.replaceAll(/\/\*\{(.+?)\}\*\/|"\{(data)\}"/g, (_, name = 'data') => parts[name] ?? '')
}

function describeMachine() {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    processors: cpus().length,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()}`,
    node: process.version,
    /** Load average of one minute, when the run began. */
    loadAverage: loadavg()[0] ?? 0,
  }
}

function ownCommit(): string | undefined {
  try {
    const args = ['describe', '--always', '--dirty', '--abbrev=7', '--exclude=*']
    const cwd = import.meta.dirname
    return execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    // An unpacked archive has no history.
    return undefined
  }
}
