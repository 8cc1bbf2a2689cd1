/**
 * Mail domains of contacts (`email.validate_mx`): a contact whose domain takes no mail is refused (RFC 8555 §7.3).
 *
 * A domain that nothing could be learned about is let through. No certificate depends on a contact, and name servers that
 * are away must not keep anybody from an account.
 */

import type { MailDomainFinding } from '../../workers/job.ts'
import { Problem } from '../shared/protocol/problem.ts'

/** One finding a domain, in their order; undefined when nobody has time for it now. */
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
