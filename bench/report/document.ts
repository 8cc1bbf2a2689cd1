/** The JSON file: everything a run measured, with what a reader needs to judge it. Described in docs/benchmarks.md; `version` rises when a reader would break. */

import { execFileSync } from 'node:child_process'
import { cpus, loadavg, release, totalmem } from 'node:os'
import type { AbuseResult } from '../abuse/result.ts'
import type { MicroFigures } from '../micro/micro.ts'
import type { OverloadResult } from '../overload/result.ts'
import type { ScenarioProfile } from '../profile/profile.ts'
import type { ScaleRow } from '../scale/result.ts'
import type { Subject } from '../servers/contestant.ts'
import type { SignerRow } from '../signer/text.ts'
import type { Measured } from './summary.ts'

export interface Machine {
  processor: string
  processors: number
  memoryBytes: number
  system: string
  node: string
  /** Of one minute, when the run began. */
  loadAverage: number
}

export interface BenchDocument {
  format: 'chancery-bench'
  version: 1
  /** Arguments of the command. */
  command: string[]
  startedAt: string
  endedAt: string
  /** The signal that ended it early: what follows is what was measured until then. Undefined when it went on to its end. */
  interruptedBy: string | undefined
  /** Of the bench itself; undefined outside a git work tree. */
  commit: string | undefined
  machine: Machine
  /** In the order in which rounds and figures list them: A, B, … */
  servers: Subject[]
  measurements: Measured[]
  overload: OverloadResult[]
  abuse: AbuseResult[]
  scale: ScaleRow[]
  profiles: ScenarioProfile[]
  /** Undefined unless it is the command's. */
  micro: MicroFigures | undefined
  signer: SignerRow[]
}

/** What a command has measured; the other parts are empty. */
export type Parts = Partial<
  Pick<BenchDocument, 'measurements' | 'overload' | 'abuse' | 'scale' | 'profiles' | 'micro' | 'signer'>
>

/**
 * @param interruptedBy Asked in the end.
 * @returns a function that makes the document when the run has ended.
 */
export function beginDocument(command: string[], interruptedBy: () => string | undefined) {
  const startedAt = new Date().toISOString()
  const machine = describeMachine()
  return (servers: Subject[], parts: Parts): BenchDocument => ({
    format: 'chancery-bench',
    version: 1,
    command,
    startedAt,
    endedAt: new Date().toISOString(),
    interruptedBy: interruptedBy(),
    commit: ownCommit(),
    machine,
    servers,
    measurements: parts.measurements ?? [],
    overload: parts.overload ?? [],
    abuse: parts.abuse ?? [],
    scale: parts.scale ?? [],
    profiles: parts.profiles ?? [],
    micro: parts.micro,
    signer: parts.signer ?? [],
  })
}

function describeMachine(): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    processors: cpus().length,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()}`,
    node: process.version,
    loadAverage: loadavg()[0] ?? 0,
  }
}

function ownCommit(): string | undefined {
  try {
    const args = ['describe', '--always', '--dirty', '--abbrev=7', '--exclude=*']
    return execFileSync('git', args, {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    // An unpacked archive has no history.
    return undefined
  }
}
