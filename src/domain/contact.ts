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

/** getssl writes a space behind `mailto:`. */
function checkContact(sent: string, policy: ContactPolicy): string {
  const contact = sent.trim()
  if (!/^mailto:/i.test(contact)) throw new Problem('unsupportedContact', 'only mailto contacts are supported')
  if (contact.length > MAX_LENGTH)
    throw new Problem('invalidContact', `a contact may have at most ${MAX_LENGTH} characters`)
  const address = contact.slice('mailto:'.length).trim()
  if (address.includes('?'))
    throw new Problem('invalidContact', 'a mailto contact may not carry header fields (RFC 8555 §7.3)')
  if (address.includes(','))
    throw new Problem('invalidContact', 'a mailto contact names exactly one address (RFC 8555 §7.3)')
  const domain = ADDRESS.exec(address)?.[1]?.toLowerCase()
  if (domain === undefined)
    throw new Problem('invalidContact', `${whatIsWrong(address)}; send one such as mailto:admin@example.org`)
  if (policy.allowedDomains.length > 0 && !policy.allowedDomains.some((allowed) => allowed.toLowerCase() === domain))
    throw new Problem('invalidContact', `contacts at ${domain} are not accepted by this server`)
  return `mailto:${address}`
}

/** Says why `ADDRESS` refuses an address. */
function whatIsWrong(address: string): string {
  const [local = '', domain = '', ...more] = address.split('@')
  if (address === '') return 'the contact names no address'
  if (/[<>]/.test(address)) return 'a contact is only the address itself, without a name and angle brackets'
  if (/\s/.test(address)) return 'the address of the contact has white space in it'
  if (/[^\x21-\x7e]/.test(address)) return 'the address of the contact may have only ASCII characters'
  if (local === '' || domain === '' || more.length > 0)
    return 'the address of the contact must have exactly one @ inside'
  if (!ADDRESS.test(`a@${domain}`))
    return domain.includes('.')
      ? 'what follows the @ of the contact is no domain name'
      : 'the domain of the contact has no dot'
  return 'the contact has a character before the @ that is not accepted here'
}
