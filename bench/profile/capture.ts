/** What the inspector of every thread of a server tells about a stretch of time: CPU profile or allocations, and the event loop's delay. */

import { readFileSync } from 'node:fs'
import { parseProcStat, TICKS_PER_SECOND } from '../measure/proc-stat.ts'
import type { Agents, ServerThread } from './agents.ts'

/** A function as profiles name it; native ones have no url. */
export interface CallFrame {
  functionName: string
  url: string
}

export interface ProfileNode {
  id: number
  callFrame: CallFrame
  /** Samples that ended in this very node. */
  hitCount?: number
  children?: number[]
}

/** Parents come before their children. */
export interface CpuProfile {
  nodes: ProfileNode[]
}

export interface AllocationNode {
  callFrame: CallFrame
  /** Bytes, as far as sampling tells. */
  selfSize: number
  children: AllocationNode[]
}

/** Milliseconds beyond the timer that measured it. */
export interface LoopDelay {
  p50: number
  p99: number
  max: number
}

export interface ThreadCapture<Profile> {
  pid: number
  title: string
  url: string
  /** Microseconds that the thread ran. */
  cpuMicros: number
  loopDelay: LoopDelay
  profile: Profile
}

/** What a thread is told at the beginning, and what at the end. */
export interface Instrument<Profile> {
  begin: readonly [method: string, parameters?: object][]
  end: string | undefined
  profileOf(result: unknown): Profile
}

const SAMPLING_MICROS = 1000
/** A timer a hundred times a second: cheap enough to be left on. */
const DELAY_RESOLUTION_MS = 10
/** Small objects of a request are some hundred bytes; each 16 KiB of them one is recorded. */
const SAMPLING_BYTES = 16_384

/** Nothing but the thread's own time and its event loop. */
export const TIMES: Instrument<undefined> = { begin: [], end: undefined, profileOf: () => undefined }

export const CPU: Instrument<CpuProfile> = {
  begin: [['Profiler.enable'], ['Profiler.setSamplingInterval', { interval: SAMPLING_MICROS }], ['Profiler.start']],
  end: 'Profiler.stop',
  profileOf: (result) => (result as { profile: CpuProfile }).profile,
}

/** All allocations of the time, not only what is still there at its end. */
export const ALLOCATIONS: Instrument<AllocationNode> = {
  begin: [
    [
      'HeapProfiler.startSampling',
      {
        samplingInterval: SAMPLING_BYTES,
        includeObjectsCollectedByMajorGC: true,
        includeObjectsCollectedByMinorGC: true,
      },
    ],
  ],
  end: 'HeapProfiler.stopSampling',
  profileOf: (result) => (result as { profile: { head: AllocationNode } }).profile.head,
}

const BEGIN = `(() => {
  const { monitorEventLoopDelay } = process.getBuiltinModule('node:perf_hooks')
  const delay = globalThis[Symbol.for('chancery.bench')] = monitorEventLoopDelay({ resolution: ${DELAY_RESOLUTION_MS} })
  delay.enable()
  return process.getBuiltinModule('node:fs').readlinkSync('/proc/thread-self')
})()`
const END = `(() => {
  const delay = globalThis[Symbol.for('chancery.bench')]
  delay.disable()
  return JSON.stringify([delay.percentile(50), delay.percentile(99), delay.max])
})()`

/** @returns a function that ends the capture; threads that ended meanwhile are not in its result. */
export async function capture<Profile>(
  { threads }: Agents,
  instrument: Instrument<Profile>,
): Promise<() => Promise<ThreadCapture<Profile>[]>> {
  const captures = await Promise.all(threads.map((thread) => captureThread(thread, instrument)))
  return async () => (await Promise.all(captures.map((end) => end()))).flat()
}

async function captureThread<Profile>(thread: ServerThread, instrument: Instrument<Profile>) {
  const place = `/proc/${await evaluate(thread, BEGIN)}/stat`
  for (const [method, parameters] of instrument.begin) await thread.call(method, parameters)
  const before = cpuMicrosAt(place)
  return async (): Promise<ThreadCapture<Profile>[]> => {
    const after = cpuMicrosAt(place)
    if (before === undefined || after === undefined) return []
    const { pid, title, url } = thread
    const profile = instrument.profileOf(instrument.end === undefined ? undefined : await thread.call(instrument.end))
    const [p50, p99, max] = (JSON.parse(await evaluate(thread, END)) as number[]).map(toDelayMs)
    return [{ pid, title, url, cpuMicros: after - before, profile, loopDelay: { p50: p50!, p99: p99!, max: max! } }]
  }
}

/** The timer's own interval is in what it measures. */
const toDelayMs = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - DELAY_RESOLUTION_MS)

async function evaluate(thread: ServerThread, expression: string): Promise<string> {
  const { result } = await thread.call<{ result: { value: string } }>('Runtime.evaluate', { expression })
  return result.value
}

/** @returns undefined when the thread has ended. */
function cpuMicrosAt(place: string): number | undefined {
  try {
    return parseProcStat(readFileSync(place, 'latin1')).ownTicks * (1_000_000 / TICKS_PER_SECOND)
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
