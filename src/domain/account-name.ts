/** The name by which people know an account. */

export interface AccountNaming {
  id: string
  /** Given by an administrator. */
  label: string | null
  contacts: readonly string[]
  /** Of the credential it was registered with (RFC 8555 §7.3.4). */
  eabKid: string | null
}

/** The beginning of a UUIDv7 is its time, which many accounts share. */
const SHORT_ID = 12

/** Its label, else its first contact, else its kid, else the end of its id. */
export function accountName({ id, label, contacts, eabKid }: AccountNaming): string {
  return label ?? contacts[0]?.replace(/^mailto:/i, '') ?? eabKid ?? id.slice(-SHORT_ID)
}
