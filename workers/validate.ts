/** The task that the pool's threads run: one job in, one verdict out. */

import type { BuiltInJob, ValidationVerdict } from './job.ts'
import { validateDns01, validateDnsAccount01 } from './validate/dns-01.ts'
import { validateHttp01 } from './validate/http-01.ts'

const VALIDATORS = {
  'http-01': validateHttp01,
  'dns-01': validateDns01,
  'dns-account-01': validateDnsAccount01,
} satisfies { [T in BuiltInJob['type']]: (job: Extract<BuiltInJob, { type: T }>) => Promise<ValidationVerdict> }

/** Total for whatever the outside world does; a rejection is a fault of this program. */
export default function validate(job: BuiltInJob): Promise<ValidationVerdict> {
  // The table pairs each type with its job; TypeScript cannot follow that through a union.
  const validator = VALIDATORS[job.type] as (job: BuiltInJob) => Promise<ValidationVerdict>
  return validator(job)
}
