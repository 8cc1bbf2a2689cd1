/** What a PEM file of a certificate may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { requireCommand } from '../support/requirements.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { aCertificate } from '../unit/shared/pki/support.ts'
import { GLUED, pemsOf } from './pems.ts'

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
