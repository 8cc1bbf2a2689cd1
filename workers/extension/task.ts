/**
 * The task of the threads that run validator modules: one job in, one verdict out, whatever the module does.
 *
 * Modules are the operator's code, so they get threads of their own: one that never gives its thread back, or uses up
 * its heap, costs the jobs beside it on these threads, and none of the built-in methods.
 */

import { workerData } from 'node:worker_threads'
import type { ExtensionJob, ValidationVerdict } from '../job.ts'
import { requireVerdict, type Validator } from './contract.ts'
import { describeThrown, loadValidator, type ValidatorModule, type ValidatorSettings } from './module.ts'

/** Worker data of these threads. */
export interface ExtensionThreadData {
  modules: readonly (ValidatorModule & { type: string })[]
  settings: ValidatorSettings
}

const { modules, settings } = workerData as ExtensionThreadData
const loading = new Map<string, Promise<Validator>>()

/** Once a thread; a module that fails here was changed after the start, and is tried again by the next job. */
function validatorOf(type: string): Promise<Validator> {
  const known = loading.get(type)
  if (known) return known
  const module = modules.find((one) => one.type === type)
  if (!module) throw new Error(`these threads were started without ${type}`)
  const loaded = loadValidator(module, settings).then(({ validator }) => validator)
  loading.set(type, loaded)
  loaded.catch(() => loading.delete(type))
  return loaded
}

export default async function validateByExtension(job: ExtensionJob): Promise<ValidationVerdict> {
  const { challenge } = job
  const abort = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const overdue = new Promise<ValidationVerdict>((resolve) => {
    timer = setTimeout(() => {
      resolve(noVerdict(job, `gave no answer within ${challenge.timeoutMs / 1000} seconds`))
      abort.abort()
    }, challenge.timeoutMs)
  })
  try {
    return await Promise.race([answerOf(job, abort.signal), overdue])
  } finally {
    clearTimeout(timer)
  }
}

async function answerOf(job: ExtensionJob, signal: AbortSignal): Promise<ValidationVerdict> {
  let answer: unknown
  try {
    const validator = await validatorOf(job.challenge.type)
    answer = await validator.validate(job.challenge, { signal })
  } catch (thrown) {
    return noVerdict(job, 'failed', describeThrown(thrown))
  }
  try {
    return requireVerdict(answer)
  } catch (thrown) {
    return noVerdict(job, 'gave an answer that cannot be used', describeThrown(thrown))
  }
}

/** Nothing is known about the identifier then. The client is told that much; the reason is for the log. */
function noVerdict({ challenge }: ExtensionJob, what: string, reason?: string): ValidationVerdict {
  return {
    ok: false,
    problem: 'serverInternal',
    detail: `the validator of ${challenge.type} ${what}`,
    retryable: true,
    evidence: [{ step: 'extension', type: challenge.type, outcome: what, ...(reason !== undefined && { reason }) }],
  }
}
