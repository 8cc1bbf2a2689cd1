/** The names by which a certificate is found: its own, in their canonical spelling. */

import { parseCertificate, type TbsCertificate } from '../shared/pki/certificate.ts'
import { contextConstructedTag, DerError, DerReader } from '../shared/pki/der.ts'
import { attributeValues, type GeneralName, textOf } from '../shared/pki/name.ts'
import { COMMON_NAME, EMAIL_ADDRESS } from '../shared/pki/oids.ts'
import { canonicalName } from '../shared/protocol/identifier.ts'

export interface CertificateNames {
  /** DNS names and addresses first. */
  names: readonly string[]
  /** How many of `names`, from the first, a successor must have: no order could name the others. Left out for all. */
  identifiers?: number | undefined
}

/** Longer ones cannot be asked for, and an index entry has a bound. */
const MOST_CHARACTERS = 255

/** DNS names and addresses of the SAN: what an account can prove control of. */
export const identifiersOf = ({ dnsNames, ipAddresses }: TbsCertificate): string[] =>
  unique([...dnsNames, ...ipAddresses])

/** Also mail addresses, URIs and texts of other names (UPN), common names, and the mail address of the subject. */
export function namesOf(tbs: TbsCertificate): CertificateNames {
  const identifiers = identifiersOf(tbs)
  const others = [COMMON_NAME, EMAIL_ADDRESS].flatMap((type) => attributeValues(tbs.subject, type))
  const names = unique([...identifiers, ...tbs.subjectAltNames.flatMap(otherText), ...others])
  const isAnyOther = identifiers.length > 0 && names.length > identifiers.length
  return { names, identifiers: isAnyOther ? identifiers.length : undefined }
}

/** Undefined for what is no certificate that can be read. */
export const readNames = (der: Buffer) => readable(() => namesOf(parseCertificate(der).tbs))

const unique = (texts: readonly string[]) => [
  ...new Set(texts.map(canonicalName).filter((name) => name !== '' && name.length <= MOST_CHARACTERS)),
]

function otherText({ kind, value }: GeneralName): string[] {
  if (kind === 'rfc822Name' || kind === 'uniformResourceIdentifier') return [value]
  return kind === 'otherName' ? [readable(() => textOfOtherName(Buffer.from(value.slice(1), 'hex'))) ?? ''] : []
}

/** OtherName (RFC 5280 §4.2.1.6) of a string type: UPN, SmtpUTF8Mailbox, XmppAddr, SRVName. @throws DerError */
function textOfOtherName(der: Buffer): string | undefined {
  const name = new DerReader(der, 0, der.length, 0, false).enter(contextConstructedTag(0))
  name.oid()
  const value = name.enter(contextConstructedTag(0))
  return textOf(value.peek(), value.content(value.peek()))
}

function readable<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof DerError) return undefined
    throw error
  }
}
