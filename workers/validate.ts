/** The task that the pool's threads run: one job in, one verdict out. */

import type { BuiltInJob, ValidationVerdict } from './job.ts'
import { validateHttp01 } from './validate/http-01.ts'

const VALIDATORS = {
  'http-01': validateHttp01,
} satisfies { [T in BuiltInJob['type']]: (job: Extract<BuiltInJob, { type: T }>) => Promise<ValidationVerdict> }

/** Total for whatever the outside world does; a rejection is a fault of this program. */
export default function validate(job: BuiltInJob): Promise<ValidationVerdict> {
  return VALIDATORS[job.type](job)
}
