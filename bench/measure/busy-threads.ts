/**
 * How busy the busiest thread of each part of a server is: what can use one processor is full when it does, however many others
 * have nothing to do.
 *
 * Threads are told by their numbers, since with Node.js 20 all of a process have the same name: the first has that of its process, and the busiest
 * of a service's others is a front thread.
 */

import { type ProcessInfo, readThreads, TICKS_PER_SECOND } from './proc-stat.ts'
import type { Role } from './server-cpu.ts'

/** `main` and `front` are the first and the other threads of the service, `postgres` the processes of PostgreSQL, which have one thread each. */
export const THREAD_PARTS = ['front', 'main', 'signer', 'postgres'] as const
export type ThreadPart = (typeof THREAD_PARTS)[number]

/** By part, then by thread: clock ticks since it began. */
export type ThreadTicks = Partial<Record<ThreadPart, ReadonlyMap<number, number>>>

/** Of a processor; a part nobody has is absent. */
export type BusiestThreads = Partial<Record<ThreadPart, number>>

export function threadTicks(processes: readonly (ProcessInfo & { role: Role })[]): ThreadTicks {
  const ticks: Partial<Record<ThreadPart, Map<number, number>>> = {}
  for (const process of processes) {
    // PostgreSQL's threads are its processes, and there are many.
    for (const thread of process.role === 'postgres' ? [process] : readThreads(process.pid)) {
      const part = partOf(process, thread.pid)
      ticks[part] ??= new Map()
      ticks[part].set(thread.pid, thread.ownTicks)
    }
  }
  return ticks
}

function partOf({ role, pid }: { role: Role; pid: number }, thread: number): ThreadPart {
  if (role !== 'service') return role
  return thread === pid ? 'main' : 'front'
}

/** A thread that has begun in between counts from zero; one that has ended counts no more. */
export function busiestBetween(before: ThreadTicks, after: ThreadTicks, seconds: number): BusiestThreads {
  return Object.fromEntries(
    THREAD_PARTS.flatMap((part) => {
      const used = [...(after[part] ?? [])].map(([thread, ticks]) => ticks - (before[part]?.get(thread) ?? 0))
      return used.length === 0 ? [] : [[part, Math.max(...used) / TICKS_PER_SECOND / seconds]]
    }),
  )
}
