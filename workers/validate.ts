/** The task that the pool's threads run: one job in, one verdict out. */

import type { ValidationJob, ValidationVerdict } from './job.ts'
import { validateDns01, validateDnsAccount01 } from './validate/dns-01.ts'
import { validateDnsPersist01 } from './validate/dns-persist-01.ts'
import { validateHttp01 } from './validate/http-01.ts'
import { validateTlsAlpn01 } from './validate/tls-alpn-01.ts'

/** Total for whatever the outside world does; a rejection is a fault of this program. */
export default function validate(job: ValidationJob): Promise<ValidationVerdict> {
  switch (job.type) {
    case 'http-01':
      return validateHttp01(job)
    case 'dns-01':
      return validateDns01(job)
    case 'dns-account-01':
      return validateDnsAccount01(job)
    case 'tls-alpn-01':
      return validateTlsAlpn01(job)
    case 'dns-persist-01':
      return validateDnsPersist01(job)
  }
}
