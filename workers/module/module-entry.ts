/** Entry of a thread that runs one module: loads it, then makes one call at a time. */

import { serialize } from 'node:v8'
import { parentPort, workerData } from 'node:worker_threads'
import { describeThrown } from '../extension/extension-contract.ts'
import { createInstance, type LoadableModule, type ModuleInstance, RefusedSettings } from './module-contract.ts'

export interface ModuleCall {
  method: string
  argument: unknown
  /** Stands beside `signal` in the second argument. */
  context: object
  timeoutMs: number
  /** Whether the caller reads what the method returns. */
  isAnswered: boolean
}

/** Facts of an error beside its message, such as `retryable`. */
export type ErrorFacts = Readonly<Record<string, boolean | number>>

export type ModuleReport =
  | { type: 'ready'; methods: string[] }
  | { type: 'unusable'; reason: string; isOfSettings: boolean }
  /** @property answer serialized, so that only this thread meets what cannot be sent */
  | { type: 'done'; answer: Uint8Array | undefined }
  | { type: 'failed'; reason: string; facts: ErrorFacts }

/** A chain of ten certificates has 20 KiB. */
const MAX_ANSWER_BYTES = 262_144
const MAX_FACTS = 8

const { module, exportName, url, settings, methods } = workerData as LoadableModule
const report = (message: ModuleReport) => parentPort?.postMessage(message)

async function load(): Promise<ModuleInstance> {
  const exports = (await import(url)) as Record<string, unknown>
  if (!Object.hasOwn(exports, exportName)) throw new Error(`exports no ${exportName}`)
  return createInstance(exports[exportName], settings)
}

async function call(instance: ModuleInstance, wanted: ModuleCall): Promise<void> {
  const { method, argument, context, timeoutMs, isAnswered } = wanted
  const over = new AbortController()
  const timer = setTimeout(() => over.abort(new Error(`the time of ${module} is over`)), timeoutMs)
  try {
    const answer = await instance[method]?.(argument, { ...context, signal: over.signal })
    report({ type: 'done', answer: isAnswered ? packed(answer) : undefined })
  } catch (thrown) {
    report({ type: 'failed', reason: describeThrown(thrown), facts: factsOf(thrown) })
  } finally {
    clearTimeout(timer)
  }
}

/** @throws Error that is final: another call would give the same answer */
function packed(answer: unknown): Uint8Array {
  let bytes: Uint8Array
  try {
    bytes = serialize(answer)
  } catch (error) {
    throw final(`the answer cannot be sent: ${describeThrown(error)}`)
  }
  if (bytes.length > MAX_ANSWER_BYTES) throw final(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
  return bytes
}

const final = (message: string) => Object.assign(new Error(message), { retryable: false })

function factsOf(thrown: unknown): ErrorFacts {
  try {
    const members = Object.entries(thrown as object).filter(
      ([, value]) => typeof value === 'boolean' || Number.isFinite(value),
    )
    return Object.fromEntries(members.slice(0, MAX_FACTS)) as ErrorFacts
  } catch {
    return {}
  }
}

try {
  const instance = await load()
  parentPort?.on('message', (wanted: ModuleCall) => void call(instance, wanted))
  report({ type: 'ready', methods: methods.filter((name) => typeof instance[name] === 'function') })
} catch (thrown) {
  const isOfSettings = thrown instanceof RefusedSettings
  report({ type: 'unusable', reason: describeThrown(isOfSettings ? thrown.cause : thrown), isOfSettings })
}
