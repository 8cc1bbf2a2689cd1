/**
 * Mail domains of contacts (`email.validate_mx`): refuses those that take no mail (RFC 8555 §7.3).
 *
 * A domain whose name servers do not answer is accepted, as no certificate depends on a contact.
 */

import type { MailDomainFinding } from '../../workers/job.ts'
import { Problem } from '../shared/protocol/problem.ts'

/** One finding per domain, in their order; undefined when the checkers are busy. */
export type AskForMailDomains = (domains: readonly string[]) => Promise<readonly MailDomainFinding[] | undefined>

/** @param contacts mailto URLs of one address each. Rejects with Problem invalidContact. */
export type RequireMailDomains = (contacts: readonly string[]) => Promise<void>

export function createMailDomainCheck(ask: AskForMailDomains): RequireMailDomains {
  return async (contacts) => {
    const domains = [...new Set(contacts.map(domainOf))]
    if (domains.length === 0) return
    const findings = (await ask(domains)) ?? []
    const reasons = findings.flatMap((finding) => (finding.result === 'refused' ? [finding.reason] : []))
    if (reasons.length > 0)
      throw new Problem('invalidContact', `a contact must be an address that can receive mail: ${reasons.join('; ')}`)
  }
}

const domainOf = (contact: string) => contact.slice(contact.lastIndexOf('@') + 1).toLowerCase()
