/** The signer writes down the requester of a certificate, so that a database that has lost it can have it back. */

export interface SigningRequester {
  certificateId: string
  /** Both are absent for a certificate of the service itself. */
  orderId: string | undefined
  accountId: string | undefined
}

export function renderRequester({ certificateId, orderId, accountId }: SigningRequester): string {
  const whose = orderId !== undefined && accountId !== undefined ? `order ${orderId} account ${accountId}` : 'self'
  return `${whose} certificate ${certificateId}`
}

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const FORM = new RegExp(`^(?:order (${UUID}) account (${UUID})|self) certificate (${UUID})$`)

/** @returns undefined for a text of another form, as earlier releases and other programs write it */
export function parseRequester(text: string): SigningRequester | undefined {
  const [, orderId, accountId, certificateId] = FORM.exec(text) ?? []
  return certificateId === undefined ? undefined : { certificateId, orderId, accountId }
}
