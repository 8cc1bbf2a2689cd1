/** Checks of a CRL (RFC 5280 §5.1): signed by the issuer of the certificates that name it, and not out of date. */

import { verify, X509Certificate } from 'node:crypto'
import { type DerReader, readSingle, TAG } from '../../src/shared/pki/der.ts'
import { Failure } from '../client/failure.ts'

const END = '-----END CERTIFICATE-----'
const UTC_TIME = 0x17
const GENERALIZED_TIME = 0x18
/** ecdsa-with-SHA256, -SHA384, -SHA512 and sha256-, sha384-, sha512WithRSAEncryption. */
const DIGESTS: Readonly<Record<string, string>> = {
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
}

/**
 * @param chainPem a certificate and its issuer
 * @returns a function that checks DER in latin1, each distinct list once, and throws Failure `check-crl`
 */
export function crlChecker(chainPem: string): (text: string) => void {
  const issuer = new X509Certificate(chainPem.split(END)[1] + END)
  let good = ''
  return (text) => {
    if (text === good) return
    try {
      checkCrl(Buffer.from(text, 'latin1'), issuer)
    } catch (error) {
      if (error instanceof Failure) throw error
      throw new Failure('check-crl', `not a CRL: ${(error as Error).message}`)
    }
    good = text
  }
}

function checkCrl(der: Buffer, issuer: X509Certificate): void {
  const reader = readSingle(der, TAG.sequence, 'CertificateList')
  const tbs = reader.any()
  const digest = DIGESTS[reader.sequence().oid()]
  const signature = reader.bitStringOctets()
  reader.finish('CertificateList')
  if (digest === undefined || !verify(digest, tbs, issuer.publicKey, signature))
    throw new Failure('check-crl', `the CRL is not signed by ${issuer.subject}`)
  const nextUpdate = nextUpdateOf(tbs)
  if (!(nextUpdate > Date.now()))
    throw new Failure('check-crl', `the CRL was to be followed at ${new Date(nextUpdate)}`)
}

/** TBSCertList: version, signature, issuer, thisUpdate, nextUpdate. */
function nextUpdateOf(tbs: Buffer): number {
  const reader = readSingle(tbs, TAG.sequence, 'TBSCertList')
  for (let skipped = 0; skipped < 4; skipped++) reader.any()
  return readTime(reader)
}

function readTime(reader: DerReader): number {
  const tag = reader.peek()
  if (tag !== UTC_TIME && tag !== GENERALIZED_TIME) throw new Failure('check-crl', 'the CRL has no nextUpdate')
  const digits = reader.content(tag).toString('latin1')
  const text = tag === UTC_TIME ? `20${digits}` : digits
  return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
}
