/** The module that the pool's threads load: puts a job together again and has it validated. */

import { workerData } from 'node:worker_threads'
import type { SentJob, ValidationVerdict } from './job.ts'
import validate from './validate.ts'

export default function task({ job, shared }: SentJob): Promise<ValidationVerdict> {
  const settings = workerData as readonly object[]
  for (const member of shared) {
    const place = Reflect.get(job, member) as number
    Reflect.set(job, member, settings[place])
  }
  return validate(job)
}
