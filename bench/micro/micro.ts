/** What a micro-benchmark is, and how its CPU is taken: user and system time of the processes at work, for one operation. */

import type { CryptoCosts } from '../measure/crypto-floor.ts'

/** Microseconds of CPU of one operation. */
export interface MicroResult {
  name: string
  /** Commands of one statement; absent where nothing is batched. */
  batch?: number
  /** Of this process. */
  own: number
  /** Of the process that is asked: signer, PostgreSQL backend. */
  other?: number
  operations: number
}

export interface MicroFigures {
  /** Microseconds of CPU, mean of before and after. */
  floor: CryptoCosts
  results: MicroResult[]
}

export interface MicroSettings {
  /** Of each measurement that ends by time. */
  milliseconds: number
  /** Of each statement. */
  rows: number
  batches: readonly number[]
  signal: AbortSignal
}

export type Done = (result: MicroResult) => Promise<void>

export interface MicroGroup {
  names: readonly string[]
  summary: string
  /**
   * Those of its benchmarks that are wanted.
   * @param done told each as it is done; whatever it throws ends the group
   * @throws Error when what they need cannot be had
   */
  run(wanted: (name: string) => boolean, settings: MicroSettings, done: Done): Promise<void>
}

const AT_ONCE = 20
const WARM_UP = 2000

/** Blocks this thread for about `milliseconds`, and before that until the function is compiled. */
export function measureSync(name: string, milliseconds: number, run: () => unknown): MicroResult {
  for (let i = 0; i < WARM_UP; i++) run()
  const before = process.cpuUsage()
  const end = performance.now() + milliseconds
  let operations = 0
  while (performance.now() < end) {
    for (let i = 0; i < AT_ONCE; i++) run()
    operations += AT_ONCE
  }
  return { name, own: microsSince(before) / operations, operations }
}

/**
 * @param round does some operations and says how many
 * @param otherMicros CPU of the process that is asked, since it began
 */
export async function measureRounds(
  name: string,
  milliseconds: number,
  round: () => Promise<number>,
  otherMicros?: () => number,
): Promise<MicroResult> {
  await repeat(milliseconds / 4, round)
  const before = process.cpuUsage()
  const otherBefore = otherMicros?.()
  const operations = await repeat(milliseconds, round)
  const own = microsSince(before) / operations
  if (!otherMicros || otherBefore === undefined) return { name, own, operations }
  return { name, own, other: (otherMicros() - otherBefore) / operations, operations }
}

async function repeat(milliseconds: number, round: () => Promise<number>): Promise<number> {
  const end = performance.now() + milliseconds
  let operations = 0
  do operations += await round()
  while (performance.now() < end)
  return operations
}

export function microsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return user + system
}
