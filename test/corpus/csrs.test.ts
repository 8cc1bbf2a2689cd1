/** What a certification request may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { checkCsr, commonNameOf } from '../../src/domain/csr-check.ts'
import { CsrError, parseCsr } from '../../src/shared/pki/csr.ts'
import { DEFAULT_SUBJECT_KEY_POLICY } from '../../src/shared/pki/weak-key.ts'
import type { Identifier } from '../../src/shared/protocol/identifier.ts'
import { Problem } from '../../src/shared/protocol/problem.ts'
import { requireCommand } from '../support/requirements.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ADDRESS_CSRS, CSRS, type CsrRow } from './csrs.ts'

const NO_ACCOUNT_KEY = Buffer.alloc(0)
const POLICY = {
  signatureAlgorithms: ['SHA256withRSA', 'SHA256withECDSA', 'Ed25519'],
  key: DEFAULT_SUBJECT_KEY_POLICY,
  keyTypes: ['RSA', 'P-256', 'Ed25519'],
} as const

const TABLES: readonly (readonly [Identifier, readonly CsrRow[]])[] = [
  [{ type: 'dns', value: 'a.example' }, CSRS],
  [{ type: 'ip', value: '192.0.2.1' }, ADDRESS_CSRS],
]

for (const [identifier, rows] of TABLES)
  describe(`the request for ${identifier.value}`, () => {
    for (const [name, from, readers, bytes, refusal] of rows) {
      const check = () => {
        const csr = parseCsr(bytes)
        checkCsr(csr, [identifier], NO_ACCOUNT_KEY, POLICY)
        return csr
      }
      if (refusal === undefined)
        test(`${name} (${from}) is read as by ${readers}, and names nothing but what was ordered`, () => {
          const commonName = commonNameOf(check())
          assert.ok(commonName === undefined || commonName === identifier.value)
        })
      else
        test(`${name} (${from}) is refused: ${refusal}`, () =>
          assert.throws(check, (error) => {
            const isRefusal = error instanceof CsrError || (error instanceof Problem && error.type === 'badCSR')
            return isRefusal && error.message.includes(refusal)
          }))
    }
  })

describe('the column for OpenSSL', requireCommand('openssl'), () => {
  const folder = temporaryFolder()

  test('is what it says', async () => {
    const verdicts: string[] = []
    const expected: string[] = []
    for (const [name, , readers, bytes] of TABLES.flatMap(([, rows]) => rows)) {
      const file = path.join(folder, 'request.der')
      writeFileSync(file, bytes)
      const { output } = await runCommand('openssl', ['req', '-inform', 'DER', '-in', file, '-verify', '-noout'])
      verdicts.push(`${name}: ${output.includes('verify OK')}`)
      expected.push(`${name}: ${readers === 'both' || readers === 'OpenSSL'}`)
    }
    assert.deepEqual(verdicts, expected)
  })
})
