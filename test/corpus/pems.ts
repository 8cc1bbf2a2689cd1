/**
 * PEM as CAs, devices and people write it: name, who writes it, which of the two readers take it, and the text. Ours takes all,
 * with the same certificate or certificates.
 *
 * Go is encoding/pem of Go 1.19.8 (`pem.Decode` until it finds no more), asked by hand. OpenSSL is asked by the test
 * (`openssl x509`, which reads the first certificate).
 */

import { encodePem } from '../../src/shared/pki/pem.ts'
import type { Readers } from './csrs.ts'

export type PemRow = readonly [name: string, from: string, readers: Readers, text: string]

/** Rows for one certificate. */
export function pemsOf(der: Buffer): PemRow[] {
  const exact = encodePem('CERTIFICATE', der)
  const base64 = der.toString('base64')
  const begin = '-----BEGIN CERTIFICATE-----'
  const end = '-----END CERTIFICATE-----'
  const inLines = (length: number) => base64.replaceAll(new RegExp(`.{1,${length}}`, 'g'), '$&\n')
  const withLabel = (label: string) => encodePem(label, der)
  return [
    ['exact', 'most', 'both', exact],
    ['subject and issuer before', 'openssl s_client, pkcs12', 'both', `subject=CN = a\nissuer=CN = b\n${exact}`],
    ['bag attributes', 'openssl pkcs12', 'both', `Bag Attributes\n    localKeyID: 01 02\n${exact}`],
    ['text of the certificate', 'openssl ca', 'both', `Certificate:\n    Data:\n        Version: 3 (0x2)\n${exact}`],
    ['text behind', 'web pages', 'both', `${exact}\n# the end\n`],
    ['76 columns', 'MIME encoders, Java', 'both', `${begin}\n${inLines(76)}${end}\n`],
    ['48 columns', 'devices', 'both', `${begin}\n${inLines(48)}${end}\n`],
    ['one long line', 'JSON, shell scripts', 'both', `${begin}\n${base64}\n${end}\n`],
    ['CRLF', 'Windows', 'both', exact.replaceAll('\n', '\r\n')],
    ['CR alone', 'old Mac programs', 'neither', exact.replaceAll('\n', '\r')],
    ['BOM', 'Notepad', 'OpenSSL', `\uFEFF${exact}`],
    ['blanks at the ends', 'web forms', 'both', exact.replaceAll('\n', '  \n')],
    ['blanks at the starts', 'YAML', 'neither', exact.replaceAll(/^/gm, '    ')],
    ['tabs at the starts of base64', 'here-documents', 'both', exact.replaceAll(/^(?=[A-Za-z0-9+/])/gm, '\t')],
    ['empty lines', 'editors', 'Go', exact.replaceAll('\n', '\n\n')],
    ['headers', 'RFC 1421 programs', 'Go', exact.replace('\n', '\nX-Comment: a\n\n')],
    ['all on one line', 'environment variables', 'neither', exact.replaceAll('\n', ' ')],
    ['no last line end', 'editors', 'both', exact.trimEnd()],
    ['X509 CERTIFICATE', 'old programs', 'both', withLabel('X509 CERTIFICATE')],
    [
      'TRUSTED CERTIFICATE',
      'openssl x509 -trustout',
      'OpenSSL',
      encodePem('TRUSTED CERTIFICATE', Buffer.concat([der, TRUST])),
    ],
    ['NUL behind', 'C programs', 'both', `${exact}\0`],
    ['commented out before', 'configurations', 'both', `${exact.replaceAll(/^(?=.)/gm, '# ')}${exact}`],
  ]
}

/** `X509_CERT_AUX` without content. */
const TRUST = Buffer.from('3000', 'hex')

/** A chain in one text. */
export const GLUED = (chain: readonly Buffer[]): string =>
  chain.map((der) => encodePem('CERTIFICATE', der).trimEnd()).join('')
