/** The ledger of one kind of operation: its CPU by thread, category and request. Pure. */

import { type Category, categoryOf, REQUESTS, type Request, requestOf } from './categories.ts'
import type { Frame, Stack } from './profile.ts'

export const THREADS = {
  front: 'front threads',
  supervisor: 'supervisor',
  events: 'events and modules',
  validation: 'validation',
  signer: 'signer',
  helpers: 'threads of V8 and libuv',
  postgres: 'PostgreSQL',
} as const
export type Thread = keyof typeof THREADS

/** One thread's part in one operation. */
export interface ThreadShare {
  thread: Thread
  /** For one operation, when no profile was taken. */
  micros: number
  /** Only their proportions count. */
  stacks: readonly Stack[]
}

export interface Entry {
  thread: Thread
  category: Category
  /** Undefined where no stack tells. */
  request: Request | undefined
  micros: number
}

export interface FunctionShare {
  thread: Thread
  name: string
  micros: number
}

export interface Ledger {
  title: string
  entries: readonly Entry[]
  functions: readonly FunctionShare[]
  floorMicros: number | undefined
  perSecond: number
}

/** @param isMain the main thread of its process */
export function threadOf(stacks: readonly Stack[], isMain: boolean): Thread {
  const uses = (pattern: RegExp) => stacks.some(({ frames }) => frames.some(({ file }) => pattern.test(file)))
  if (isMain) return uses(/^signer\/(?!protocol)/) ? 'signer' : 'supervisor'
  if (uses(/^src\/(http|acme|front)\//)) return 'front'
  return uses(/^workers\/(task|validate|worker-thread-task|extension)/) ? 'validation' : 'events'
}

/** The work of the probe is left out: its thread has the same microseconds without it. */
function known(stacks: readonly Stack[]): { stacks: (Stack & { category: Category })[]; all: number } {
  const found = stacks
    .map((stack) => ({ ...stack, category: categoryOf(stack.frames) }))
    .filter(({ category }) => category !== 'probe')
  return { stacks: found, all: found.reduce((sum, { micros }) => sum + micros, 0) }
}

export function entriesOf({ thread, micros, stacks }: ThreadShare): Entry[] {
  const { stacks: all, all: sum } = known(stacks)
  const found = new Map<string, Entry>()
  for (const { frames, category, micros: taken } of all) {
    const request = requestOf(frames)
    const key = `${category} ${request}`
    const entry = found.get(key) ?? { thread, category, request, micros: 0 }
    found.set(key, { ...entry, micros: entry.micros + (taken * micros) / sum })
  }
  return [...found.values()]
}

/** By self time, the dearest first. */
export function functionsOf({ thread, micros, stacks }: ThreadShare): FunctionShare[] {
  const { stacks: all, all: sum } = known(stacks)
  const found = new Map<string, number>()
  for (const { frames, micros: taken } of all) {
    const name = nameOf(frames)
    found.set(name, (found.get(name) ?? 0) + (taken * micros) / sum)
  }
  return [...found].map(([name, taken]) => ({ thread, name, micros: taken })).toSorted((a, b) => b.micros - a.micros)
}

/** Native code is named with the function of ours that called it. */
function nameOf(frames: readonly Frame[]): string {
  const [frame] = frames as [Frame]
  const place = ({ name, file, line }: Frame) => (file === '' ? name : `${name} ${file}:${line}`)
  const isOurs = ({ file }: Frame) => file !== '' && !file.startsWith('node:')
  const caller = isOurs(frame) ? undefined : frames.find(isOurs)
  return caller ? `${place(frame)} of ${place(caller)}` : place(frame)
}

export function sumOf(entries: readonly Entry[], of: Partial<Entry> = {}): number {
  const keys = Object.keys(of) as (keyof Entry)[]
  return entries.reduce((sum, entry) => (keys.every((key) => entry[key] === of[key]) ? sum + entry.micros : sum), 0)
}

/** A request's own work, and its part of what no stack attributes: the same for each of the flow. */
export function requestMicros(entries: readonly Entry[], request: Request): { own: number; shared: number } {
  const requests = Object.values(REQUESTS).reduce<number>((sum, count) => sum + count, 0)
  return {
    own: sumOf(entries, { request }) / REQUESTS[request],
    shared: sumOf(entries, { request: undefined }) / requests,
  }
}
