/** What a PEM file of a certificate may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { decodePem, encodePem } from '../../src/shared/pki/pem.ts'
import { requireCommand } from '../support/requirements.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'
import type { Readers } from './csrs.ts'

/**
 * PEM as CAs, devices and people write it: name, who writes it, which of the two readers take it, and the text. Ours takes
 * all, with the same certificate or certificates.
 *
 * Go is encoding/pem of Go 1.19.8 (`pem.Decode` until it finds no more), asked by hand. OpenSSL is asked by the test
 * (`openssl x509`, which reads the first certificate).
 */
type PemRow = readonly [name: string, from: string, readers: Readers, text: string]

/** Rows for one certificate. */
function pemsOf(der: Buffer): PemRow[] {
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
const GLUED = (chain: readonly Buffer[]): string => chain.map((der) => encodePem('CERTIFICATE', der).trimEnd()).join('')

const CERTIFICATE = aCertificate()
const ROWS = pemsOf(CERTIFICATE)

for (const [name, from, , text] of ROWS)
  test(`${name} (${from}) is the certificate that it holds`, () =>
    assert.deepEqual(decodePem(text), [{ label: 'CERTIFICATE', der: CERTIFICATE }]))

test('blocks that are glued are read one by one', () => {
  const other = aCertificate({ dnsNames: ['b.example'] })
  const ders = decodePem(GLUED([CERTIFICATE, other])).map(({ der }) => der)
  assert.deepEqual(ders, [CERTIFICATE, other])
})

describe('the column for OpenSSL', requireCommand('openssl'), () => {
  const folder = temporaryFolder()

  test('is what it says', async () => {
    const verdicts: string[] = []
    const expected: string[] = []
    for (const [name, , readers, text] of ROWS) {
      const file = path.join(folder, 'certificate.pem')
      writeFileSync(file, text)
      const { code } = await runCommand('openssl', ['x509', '-in', file, '-noout', '-serial'])
      verdicts.push(`${name}: ${code === 0}`)
      expected.push(`${name}: ${readers === 'both' || readers === 'OpenSSL'}`)
    }
    assert.deepEqual(verdicts, expected)
  })
})
