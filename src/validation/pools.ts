/**
 * The validation threads: a pool for built-in methods, and one for validator modules if there are
 * any.
 */

import { EXTENSION_LIMITS } from '../../workers/extension/extension-probe.ts'
import type { ExtensionJob, ValidationJob, ValidationVerdict } from '../../workers/job.ts'
import { judgedByCaa, WorkerPoolError } from '../../workers/job.ts'
import { WorkerPool, type WorkerPoolOptions } from '../../workers/pool.ts'
import { programFile } from '../shared/lib/program-files.ts'
import type { ChallengeMethods } from './extensions.ts'

export interface ValidationPools extends Pick<WorkerPool, 'checkCaa' | 'checkMailDomains'> {
  /** @throws WorkerPoolError; the caller may submit the job again */
  validate(job: ValidationJob): Promise<ValidationVerdict>
  close(timeoutMs: number): Promise<void>
}

type Sizes = Pick<WorkerPoolOptions, 'threads' | 'concurrentTasksPerThread' | 'maxQueue'>

/** @param autoAccept `challenges.auto_accept`: accepts every job without a check */
export function createValidationPools(
  { extensions }: ChallengeMethods,
  autoAccept: boolean,
  sizes: Sizes,
  onThreadError: (error: Error) => void,
): ValidationPools {
  const builtIn = new WorkerPool({ ...sizes, onThreadError })
  const modules =
    extensions.modules.length === 0
      ? undefined
      : new WorkerPool({
          ...sizes,
          onThreadError: (error) => onThreadError(new Error(`validator modules: ${error.message}`, { cause: error })),
          taskFile: programFile('workers/extension/extension-task.ts'),
          threadData: extensions,
          heapLimits: EXTENSION_LIMITS,
        })
  const types = new Set(extensions.modules.map(({ type }) => type))

  return {
    async validate(job) {
      // Only authorizations older than the setting still have pending challenges.
      if (autoAccept) return { ok: true, isAccepted: true, evidence: [{ step: 'auto_accept' }] }
      if (job.type !== 'extension') return builtIn.validate(job)
      // The authorization is older than the configuration, which no longer has this module.
      if (!modules || !types.has(job.challenge.type)) return noValidator(job)
      const { caa, ...alone } = job
      const verdict = await decideByModule(modules, alone)
      return verdict.ok && caa ? judgedByCaa(verdict, await builtIn.checkCaa(caa)) : verdict
    },
    checkCaa: (job) => builtIn.checkCaa(job),
    checkMailDomains: (job) => builtIn.checkMailDomains(job),
    async close(timeoutMs) {
      await Promise.all([builtIn.close(timeoutMs), modules?.close(timeoutMs)])
    },
  }
}

/**
 * A lost thread counts as a failed try, because this very job may have ended it. Otherwise a module
 * that hangs would be retried for ever instead of `max_retries` times.
 */
async function decideByModule(modules: WorkerPool, job: ExtensionJob): Promise<ValidationVerdict> {
  try {
    return await modules.validate(job)
  } catch (error) {
    if (!(error instanceof WorkerPoolError) || error.code !== 'lost') throw error
    return refused(job, 'broke off', true)
  }
}

function noValidator(job: ExtensionJob): ValidationVerdict {
  return refused(job, 'is not part of this server any more; make a new order', false)
}

function refused({ challenge: { type } }: ExtensionJob, what: string, retryable: boolean): ValidationVerdict {
  const detail = `the validator of ${type} ${what}`
  return {
    ok: false,
    problem: 'serverInternal',
    detail,
    retryable,
    evidence: [{ step: 'extension', type, outcome: what }],
  }
}
