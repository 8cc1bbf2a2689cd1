/** Addresses that a mail server may take (RFC 5321 §4.1.2, §4.5.3.1). Letters beyond ASCII are those of RFC 6531. */

const ATOM = /^[\p{L}\p{N}!#$%&'*+/=?^_`{|}~-]+$/u
const LABEL = /^[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u
const MOST_OF_LOCAL_PART = 64
const MOST_OF_DOMAIN = 253

export const MAIL_ADDRESS = 'an e-mail address such as admin@example.org'

/** No display name, no angle brackets, no quoted local part; not a check that mail arrives. */
export function isMailAddress(text: string): boolean {
  const [local = '', domain = '', ...more] = text.split('@')
  if (more.length > 0 || local.length > MOST_OF_LOCAL_PART || domain.length > MOST_OF_DOMAIN) return false
  return local.split('.').every((atom) => ATOM.test(atom)) && domain.split('.').every((label) => LABEL.test(label))
}
