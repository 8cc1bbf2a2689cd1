/** Passes a job to its validator: one job in, one verdict out. */

import { checkCaa } from './caa.ts'
import { judgedByCaa } from './caa-verdict.ts'
import type { BuiltInJob, ValidationVerdict } from './job.ts'
import { validateDns01, validateDnsAccount01 } from './validate/dns-01.ts'
import { validateDnsPersist01 } from './validate/dns-persist-01.ts'
import { validateHttp01 } from './validate/http-01.ts'
import { validateTlsAlpn01 } from './validate/tls-alpn-01.ts'

/** Returns a verdict for any outside input; a rejection is a bug here. */
export default async function validate(job: BuiltInJob): Promise<ValidationVerdict> {
  const verdict = await showControl(job)
  // Afterwards, with its own time limit, so that a failed proof causes no CAA queries.
  return verdict.ok && job.caa ? judgedByCaa(verdict, await checkCaa(job.caa)) : verdict
}

function showControl(job: BuiltInJob): Promise<ValidationVerdict> {
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
