/** The tasks of the pool's threads: each takes one job and returns one answer. */

import { checkCaa } from './caa-check.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import type { DnsClient, DnsFailure } from './dns/ask.ts'
import { createDnsClient } from './dns/dns-client.ts'
import {
  type BuiltInJob,
  judgedByCaa,
  type MailDomainFinding,
  type MailDomainJob,
  type ValidationVerdict,
} from './job.ts'
import { validateDns01, validateDnsAccount01, validateDnsPersist01 } from './validate/dns.ts'
import { validateHttp01 } from './validate/http-01.ts'
import { validateTlsAlpn01 } from './validate/tls-alpn-01.ts'

export { checkCaa }

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

/**
 * Returns one finding per domain, in order, for any input from name servers. Ends within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
export async function checkMailDomains({ domains, timeoutMs, dns }: MailDomainJob): Promise<MailDomainFinding[]> {
  const client = createDnsClient(dns)
  const deadline = startDeadline(timeoutMs)
  return Promise.all(domains.map((domain) => checkMailDomain(domain, client, deadline)))
}

async function checkMailDomain(domain: string, dns: DnsClient, deadline: Deadline): Promise<MailDomainFinding> {
  const found = await dns.query(domain, 'MX', deadline)
  if (found.kind === 'failed') return unanswered(domain, found)
  if (found.kind === 'nxdomain') return refused(`${domain} does not exist`)
  if (found.kind !== 'answer') return checkAddresses(domain, dns, deadline)
  // The root is no mail server, even wrongly listed beside others (RFC 7505 §3).
  return found.records.some(({ data }) => data.exchange !== '')
    ? { result: 'accepts' }
    : refused(`${domain} accepts no mail (RFC 7505)`)
}

/** RFC 5321 §5.1: without MX records the domain is its own mail server. */
async function checkAddresses(domain: string, dns: DnsClient, deadline: Deadline): Promise<MailDomainFinding> {
  const found = await dns.resolveAddresses(domain, deadline)
  if (found.kind === 'failed') return unanswered(domain, found)
  return found.kind === 'answer'
    ? { result: 'accepts' }
    : refused(`${domain} has neither a mail server (MX) nor an address (RFC 5321 §5.1)`)
}

/** An unqueryable name receives no mail. A retryable failure is no verdict. */
function unanswered(domain: string, { retryable, reason }: DnsFailure): MailDomainFinding {
  return retryable ? { result: 'failed', reason } : refused(`${domain}: ${reason}`)
}

function refused(reason: string): MailDomainFinding {
  return { result: 'refused', reason }
}
