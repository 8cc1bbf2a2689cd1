/** The task that the pool's threads run: one job in, one verdict out. */

import type { ValidationJob, ValidationVerdict } from './job.ts'
import { validateDnsPersist01 } from './validate/dns-persist-01.ts'
import { validateHttp01 } from './validate/http-01.ts'

/** Total for whatever the outside world does; a rejection is a fault of this program. */
export default function validate(job: ValidationJob): Promise<ValidationVerdict> {
  switch (job.type) {
    case 'http-01':
      return validateHttp01(job)
    case 'dns-persist-01':
      return validateDnsPersist01(job)
  }
}
