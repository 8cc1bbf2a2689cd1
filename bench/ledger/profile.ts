/** The CPU profile of one thread as stacks of source places, each with its CPU time. */

import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** A node of the inspector protocol's `Profiler.Profile`, with the members that are read here. */
interface ProfileNode {
  id: number
  callFrame: { functionName: string; url: string; lineNumber: number; columnNumber: number }
  children?: number[]
}

export interface ThreadProfile {
  pid: number
  /** The system's id of the thread. */
  threadId: number
  isMain: boolean
  /** On a processor, measured by the system while the profile was taken. */
  cpuMicros: number
  /** Samples name a node; the deltas are microseconds since the sample before. */
  profile: { nodes: ProfileNode[]; samples: number[]; timeDeltas: number[] }
}

export interface Frame {
  name: string
  /** Relative to the root of the tree, `node:…` for what Node.js is made of, empty for native code. */
  file: string
  line: number
  /** The export of the file that the function belongs to; empty where that is not known. */
  owner: string
}

export interface Stack {
  /** The running function first. */
  frames: readonly Frame[]
  micros: number
}

type CallFrame = ProfileNode['callFrame']

const IDLE = '(idle)'

/** In multiples of the usual interval. */
const LATE = 1.5

/**
 * Each sample counts the same, except idle and late ones. A thread that had lost its processor takes a late one when it
 * has it again, mostly in the system call that woke another thread: 6 % of a front's samples instead of 2 %.
 */
export function stacksOf({ cpuMicros, profile }: ThreadProfile, frameOf: (frame: CallFrame) => Frame): Stack[] {
  const { nodes, samples, timeDeltas } = profile
  const usual = timeDeltas.toSorted((a, b) => a - b)[timeDeltas.length >> 1] ?? 0
  const inTime = samples.filter((_, index) => (timeDeltas[index] as number) <= LATE * usual)
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)))
  const framesById = new Map(nodes.map(({ id, callFrame }) => [id, frameOf(callFrame)]))
  const counts = new Map<number, number>()
  for (const id of inTime) if (framesById.get(id)?.name !== IDLE) counts.set(id, (counts.get(id) ?? 0) + 1)
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const framesFrom = (id: number | undefined): Frame[] =>
    id === undefined ? [] : [framesById.get(id) as Frame, ...framesFrom(parents.get(id))]
  return [...counts].map(([id, count]) => ({ frames: framesFrom(id), micros: (count * cpuMicros) / all }))
}

/** Finds the sources of bundles by their maps. @param root of the tree that runs */
export function sourceFinder(root: string): (frame: CallFrame) => Frame {
  const maps = new Map<string, SourceMap | undefined>()
  const owners = new Map<string, { line: number; name: string }[]>()
  return ({ functionName, url, lineNumber, columnNumber }) => {
    const name = functionName || '(anonymous)'
    if (!url.startsWith('file:')) return { name, file: url, line: lineNumber + 1, owner: '' }
    const bundle = fileURLToPath(url)
    if (!maps.has(bundle)) maps.set(bundle, mapOf(bundle))
    const entry = maps.get(bundle)?.findEntry(lineNumber, columnNumber)
    if (entry === undefined || !('originalSource' in entry))
      return { name, file: path.relative(root, bundle), line: lineNumber + 1, owner: '' }
    const source = path.resolve(path.dirname(bundle), entry.originalSource)
    const [file, line] = [path.relative(root, source), entry.originalLine + 1]
    if (!file.startsWith('src/')) return { name, file, line, owner: '' }
    if (!owners.has(file)) owners.set(file, exportsOf(readFileSync(source, 'utf8')))
    return { name, file, line, owner: owners.get(file)?.findLast((one) => one.line <= line)?.name ?? '' }
  }
}

function mapOf(bundle: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${bundle}.map`, 'utf8')))
  } catch {
    // A package that is not bundled has no map.
    return undefined
  }
}

/** Names and lines of what a source exports, in its order. */
export function exportsOf(text: string): { line: number; name: string }[] {
  return text.split('\n').flatMap((line, index) => {
    const name = /^export (?:async )?(?:const|function|class) (\w+)/.exec(line)?.[1]
    return name === undefined ? [] : [{ line: index + 1, name }]
  })
}
