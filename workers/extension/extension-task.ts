/**
 * The task of the threads that run validator modules: one job in, one verdict out. It holds for any
 * behaviour of the module.
 *
 * Modules are the operator's code, so they have their own threads. A module that blocks its thread
 * or fills its heap harms only jobs of these threads.
 */

import { workerData } from 'node:worker_threads'
import { oncePerKey } from '../../src/shared/lib/caching.ts'
import type { ExtensionJob, ValidationVerdict } from '../job.ts'
import {
  describeThrown,
  loadValidator,
  requireVerdict,
  type Validator,
  type ValidatorModule,
  type ValidatorSettings,
} from './extension-contract.ts'

/** Worker data of these threads. */
export interface ExtensionThreadData {
  modules: readonly (ValidatorModule & { type: string })[]
  settings: ValidatorSettings
}

const { modules, settings } = workerData as ExtensionThreadData
const loaded = new Map<string, Validator>()

/** Loads once per thread. A module that fails here has changed since the start, and the next job tries again. */
const load = oncePerKey(async (type: string): Promise<void> => {
  const module = modules.find((one) => one.type === type)
  if (!module) throw new Error(`these threads were started without ${type}`)
  loaded.set(type, (await loadValidator(module, settings)).validator)
}, new Map())

/** An immediate answer needs no wait and no timer. */
export default function validateByExtension(job: ExtensionJob): ValidationVerdict | Promise<ValidationVerdict> {
  const bound = new Bound()
  const answer = answerOf(job, bound)
  return answer instanceof Promise ? withinTime(job, answer, bound) : answer
}

async function withinTime(
  job: ExtensionJob,
  answer: Promise<ValidationVerdict>,
  bound: Bound,
): Promise<ValidationVerdict> {
  const { timeoutMs } = job.challenge
  let timer: NodeJS.Timeout | undefined
  const overdue = new Promise<ValidationVerdict>((resolve) => {
    timer = setTimeout(() => {
      resolve(noVerdict(job, `gave no answer within ${timeoutMs / 1000} seconds`))
      bound.abort()
    }, timeoutMs)
  })
  try {
    return await Promise.race([answer, overdue])
  } finally {
    clearTimeout(timer)
  }
}

function answerOf(job: ExtensionJob, bound: Bound): ValidationVerdict | Promise<ValidationVerdict> {
  const validator = loaded.get(job.challenge.type)
  if (!validator) return answerLater(job, bound)
  let answer: unknown
  try {
    answer = validator.validate(job.challenge, bound)
    if (isThenable(answer)) return judgedLater(job, answer)
  } catch (thrown) {
    return noVerdict(job, 'failed', describeThrown(thrown))
  }
  return judged(job, answer)
}

async function answerLater(job: ExtensionJob, bound: Bound): Promise<ValidationVerdict> {
  try {
    await load(job.challenge.type)
  } catch (thrown) {
    return noVerdict(job, 'failed', describeThrown(thrown))
  }
  return answerOf(job, bound)
}

function isThenable(answer: unknown): answer is PromiseLike<unknown> {
  return typeof answer === 'object' && answer !== null && typeof (answer as { then?: unknown }).then === 'function'
}

async function judgedLater(job: ExtensionJob, coming: PromiseLike<unknown>): Promise<ValidationVerdict> {
  let answer: unknown
  try {
    answer = await coming
  } catch (thrown) {
    return noVerdict(job, 'failed', describeThrown(thrown))
  }
  return judged(job, answer)
}

function judged(job: ExtensionJob, answer: unknown): ValidationVerdict {
  try {
    return requireVerdict(answer)
  } catch (thrown) {
    return noVerdict(job, 'gave an answer that cannot be used', describeThrown(thrown))
  }
}

/** The module's time limit. The signal is created on first use, because most modules never use it. */
class Bound {
  #isOver = false
  #controller: AbortController | undefined

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#isOver) this.#controller.abort()
    return this.#controller.signal
  }

  abort(): void {
    this.#isOver = true
    this.#controller?.abort()
  }
}

/** Says nothing about the identifier. The client learns only that; the reason goes to the log. */
function noVerdict({ challenge }: ExtensionJob, what: string, reason?: string): ValidationVerdict {
  return {
    ok: false,
    problem: 'serverInternal',
    detail: `the validator of ${challenge.type} ${what}`,
    retryable: true,
    evidence: [{ step: 'extension', type: challenge.type, outcome: what, ...(reason !== undefined && { reason }) }],
  }
}
