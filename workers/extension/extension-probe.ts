/** Loads validator modules once in their own thread, so that a broken module only prevents the start. */

import { Worker } from 'node:worker_threads'
import { programFile } from '../../src/shared/lib/program-files.ts'
import type { LoadedValidator, ValidatorModule, ValidatorSettings } from './extension-contract.ts'

/** Limits of the heap. Buffers outside it have no limit. */
export const EXTENSION_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 64 }

export interface ProbeData {
  modules: readonly ValidatorModule[]
  settings: ValidatorSettings
}

type ValidatorDescription = LoadedValidator['description']

export type ProbeReport =
  | { type: 'loading'; index: number }
  | { type: 'loaded'; description: ValidatorDescription }
  | { type: 'broken'; index: number; reason: string }
  | { type: 'done' }

/** `index` names the broken module. */
export class BrokenValidator extends Error {
  readonly index: number

  constructor(index: number, reason: string) {
    super(reason)
    this.name = 'BrokenValidator'
    this.index = index
  }
}

/** @throws BrokenValidator for the first module that does not load, breaks the contract, or does not finish */
export async function probeValidators(data: ProbeData, timeoutMs: number): Promise<ValidatorDescription[]> {
  const thread = new Worker(programFile('workers/extension/probe-thread.ts'), {
    workerData: data,
    env: {},
    resourceLimits: EXTENSION_LIMITS,
  })
  try {
    return await descriptionsFrom(thread, timeoutMs)
  } finally {
    await thread.terminate()
  }
}

function descriptionsFrom(thread: Worker, timeoutMs: number): Promise<ValidatorDescription[]> {
  return new Promise((resolve, reject) => {
    const descriptions: ValidatorDescription[] = []
    let current = 0
    const refuse = (reason: string) => {
      clearTimeout(timer)
      reject(new BrokenValidator(current, reason))
    }
    const timer = setTimeout(refuse, timeoutMs, `has not finished loading after ${timeoutMs / 1000} seconds`)
    thread.on('error', (error) => refuse(`broke the thread that loaded it: ${error.message}`))
    thread.on('exit', (code) => refuse(`ended the thread that loaded it (exit code ${code})`))
    thread.on('message', (report: ProbeReport) => {
      if (report.type === 'loading') current = report.index
      else if (report.type === 'loaded') descriptions.push(report.description)
      else if (report.type === 'broken') refuse(report.reason)
      else {
        clearTimeout(timer)
        resolve(descriptions)
      }
    })
  })
}
