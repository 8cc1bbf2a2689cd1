/** Entry of a thread that runs one hook module: loads it, then makes one call at a time. */

import { parentPort, workerData } from 'node:worker_threads'
import type { ModuleReference } from '../../src/shared/lib/module-reference.ts'
import { describeThrown } from '../extension/module.ts'
import { createHook, type Hook, type HookSettings, handledEvents, methodOf } from './contract.ts'

/** Plain data. */
export interface HookModule extends ModuleReference {
  /** Argument of `import`. */
  url: string
  settings: HookSettings
  /** Events that it may handle. */
  events: readonly string[]
}

export interface HookCall {
  event: string
  eventId: string
  context: object
  timeoutMs: number
}

export type HookReport = { type: 'ready'; events: string[] } | { type: 'done' } | { type: 'failed'; reason: string }

const { module, exportName, url, settings, events } = workerData as HookModule
const report = (message: HookReport) => parentPort?.postMessage(message)

async function load(): Promise<Hook> {
  const exports = (await import(url)) as Record<string, unknown>
  if (!Object.hasOwn(exports, exportName)) throw new Error(`exports no ${exportName}`)
  return createHook(exports[exportName], settings)
}

async function call(hook: Hook, { event, eventId, context, timeoutMs }: HookCall): Promise<void> {
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(new Error(`the time of ${module} is over`)), timeoutMs)
  try {
    await hook[methodOf(event)]?.(context, { eventId, signal: over.signal })
    report({ type: 'done' })
  } catch (thrown) {
    report({ type: 'failed', reason: describeThrown(thrown) })
  } finally {
    clearTimeout(timer)
  }
}

try {
  const hook = await load()
  parentPort?.on('message', (wanted: HookCall) => void call(hook, wanted))
  report({ type: 'ready', events: handledEvents(hook, events) })
} catch (thrown) {
  report({ type: 'failed', reason: describeThrown(thrown) })
}
