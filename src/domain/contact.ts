/** Account contacts (RFC 8555 §7.3; docs/decisions/contacts.md). */

import { Problem } from '../shared/protocol/problem.ts'

export interface ContactPolicy {
  required: boolean
  /** `email.allowed_domains`; empty allows every domain. */
  allowedDomains: readonly string[]
}

/** Boulder and others allow ten; 255 characters hold any address that a mail server takes. */
const MAX_CONTACTS = 10
const MAX_LENGTH = 255

const ADDRESS =
  /^[A-Za-z0-9.!#$%&'*+/=^_`{|}~-]+@([A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+)$/

/** @throws Problem unsupportedContact, invalidContact */
export function checkContacts(contacts: readonly string[], policy: ContactPolicy): string[] {
  if (policy.required && contacts.length === 0)
    throw new Problem('invalidContact', 'this server needs at least one contact, such as mailto:admin@example.org')
  if (contacts.length > MAX_CONTACTS)
    throw new Problem('invalidContact', `an account may have at most ${MAX_CONTACTS} contacts`)
  return [...new Set(contacts.map((contact) => checkContact(contact, policy)))]
}

function checkContact(contact: string, policy: ContactPolicy): string {
  if (!/^mailto:/i.test(contact)) throw new Problem('unsupportedContact', 'only mailto contacts are supported')
  if (contact.length > MAX_LENGTH)
    throw new Problem('invalidContact', `a contact may have at most ${MAX_LENGTH} characters`)
  const address = contact.slice('mailto:'.length)
  if (address.includes('?'))
    throw new Problem('invalidContact', 'a mailto contact may not carry header fields (RFC 8555 §7.3)')
  if (address.includes(','))
    throw new Problem('invalidContact', 'a mailto contact names exactly one address (RFC 8555 §7.3)')
  const domain = ADDRESS.exec(address)?.[1]?.toLowerCase()
  if (domain === undefined)
    throw new Problem(
      'invalidContact',
      'a contact must be an e-mail address whose domain has a dot, such as mailto:admin@example.org',
    )
  if (policy.allowedDomains.length > 0 && !policy.allowedDomains.some((allowed) => allowed.toLowerCase() === domain))
    throw new Problem('invalidContact', `contacts at ${domain} are not accepted by this server`)
  return `mailto:${address}`
}
