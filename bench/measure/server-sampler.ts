/** CPU and memory of a server's processes by role, looked at once a second while a load runs. */

import { type BusiestThreads, busiestBetween, type ThreadTicks, threadTicks } from './busy-threads.ts'
import { type ProcessMemory, ProcessTrees, readMemory } from './proc-stat.ts'
import {
  type CpuByRole,
  cpuBetween,
  cpuByRole,
  processesByRole,
  ROLES,
  type Role,
  type ServerPids,
} from './server-cpu.ts'

export interface ServerSample {
  /** Seconds since the sampler began; the first sample is at 0. */
  at: number
  /** Microseconds since the first sample. */
  cpu: CpuByRole
  residentBytes: Partial<Record<Role, number>>
  threads: ThreadTicks
}

const INTERVAL_MS = 1000
const PAGE_BYTES = 4096

export interface ServerSampler {
  /** Without pids there are none; a server that ends has none from then on. */
  samples: readonly ServerSample[]
  /** Takes the last one. */
  end(): void
}

/** @throws Error when a given process does not exist. */
export function sampleServer(pids: ServerPids): ServerSampler {
  if (Object.keys(pids).length === 0) return { samples: [], end: () => undefined }
  const startedAt = performance.now()
  const samples: ServerSample[] = []
  const trees = new ProcessTrees(Object.values(pids))
  const before = cpuByRole(trees.read(), pids)

  const look = () => {
    const processes = trees.read()
    // A server that has ended shows as failed operations; what it used until then stays.
    if (!Object.values(pids).every((pid) => processes.some((process) => process.pid === pid))) return
    const at = (performance.now() - startedAt) / 1000
    const cpu = cpuBetween(before, cpuByRole(processes, pids))
    const found = processesByRole(processes, pids)
    samples.push({ at, cpu, residentBytes: memoryByRole(found), threads: threadTicks(found) })
  }
  look()
  const timer = setInterval(look, INTERVAL_MS)
  return {
    samples,
    end() {
      clearInterval(timer)
      look()
    },
  }
}

/** Shared memory, such as PostgreSQL's buffers, counts once a role: with the process that has most of it resident. */
export function memoryByRole(
  processes: readonly { pid: number; role: Role }[],
  read: (pid: number) => ProcessMemory | undefined = readMemory,
): Partial<Record<Role, number>> {
  const entries = ROLES.flatMap((role) => {
    const all = processes.filter((process) => process.role === role).flatMap(({ pid }) => read(pid) ?? [])
    const own = all.reduce((sum, { residentPages, sharedPages }) => sum + residentPages - sharedPages, 0)
    const shared = Math.max(...all.map(({ sharedPages }) => sharedPages))
    return all.length === 0 ? [] : [[role, (own + shared) * PAGE_BYTES] as const]
  })
  return Object.fromEntries(entries)
}

/** What each role used between two moments, in microseconds; undefined when there are no two samples around them. */
export function cpuInWindow(samples: readonly ServerSample[], from: number, to: number): CpuByRole | undefined {
  const [first, last] = around(samples, from, to)
  if (!first || !last) return undefined
  const scale = (to - from) / (last.at - first.at)
  const used = cpuBetween(first.cpu, last.cpu)
  return Object.fromEntries(Object.entries(used).map(([role, micros]) => [role, micros * scale]))
}

/** How busy each part's busiest thread was between two moments; undefined as above. */
export function busiestInWindow(
  samples: readonly ServerSample[],
  from: number,
  to: number,
): BusiestThreads | undefined {
  const [first, last] = around(samples, from, to)
  return first && last && busiestBetween(first.threads, last.threads, last.at - first.at)
}

/** None when they are one. */
function around(samples: readonly ServerSample[], from: number, to: number): readonly ServerSample[] {
  const first = nearest(samples, from)
  const last = nearest(samples, to)
  return first && last && last.at > first.at ? [first, last] : []
}

function nearest(samples: readonly ServerSample[], at: number): ServerSample | undefined {
  return samples.reduce<ServerSample | undefined>(
    (best, sample) => (best === undefined || Math.abs(sample.at - at) < Math.abs(best.at - at) ? sample : best),
    undefined,
  )
}
