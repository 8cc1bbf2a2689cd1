/** The task that the pool's threads run: one job in, one verdict out. */

import type { ValidationJob, ValidationVerdict } from './job.ts'
import { validateHttp01 } from './validate/http-01.ts'

const VALIDATORS = {
  'http-01': validateHttp01,
} satisfies { [T in ValidationJob['type']]: (job: Extract<ValidationJob, { type: T }>) => Promise<ValidationVerdict> }

/** Total for whatever the outside world does; a rejection is a fault of this program. */
export default function validate(job: ValidationJob): Promise<ValidationVerdict> {
  return VALIDATORS[job.type](job)
}
