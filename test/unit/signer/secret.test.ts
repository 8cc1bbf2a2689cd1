import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { readSecret } from '../../../signer/keys/secret.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('a passphrase or PIN', () => {
  const folder = temporaryFolder()
  const write = (text: string, mode = 0o600) => {
    const file = path.join(folder, `${mode.toString(8)}-${text.length}`)
    writeFileSync(file, text, { mode })
    return file
  }

  test('comes from a file, without line ends behind it or a byte order mark before it', async () => {
    assert.equal(await readSecret({ file: write('correct\n') }, 'PIN'), 'correct')
    assert.equal(await readSecret({ file: write(' a b\r\n') }, 'PIN'), ' a b')
    assert.equal(await readSecret({ file: write('\uFEFFtwo\n\n') }, 'PIN'), 'two')
  })

  test('comes from the environment', async () => {
    process.env['SIGNER_TEST_SECRET'] = 'correct'
    assert.equal(await readSecret({ env: 'SIGNER_TEST_SECRET' }, 'PIN'), 'correct')
    process.env['SIGNER_TEST_SECRET'] = 'correct\n'
    assert.equal(await readSecret({ env: 'SIGNER_TEST_SECRET' }, 'PIN'), 'correct')
    delete process.env['SIGNER_TEST_SECRET']
    await assert.rejects(readSecret({ env: 'SIGNER_TEST_SECRET' }, 'PIN'), /SIGNER_TEST_SECRET is empty; .* the PIN/)
  })

  test('is undefined without a source', async () => assert.equal(await readSecret({}, 'PIN'), undefined))

  test('in a file that others can read is refused without being shown', async () => {
    for (const mode of [0o640, 0o604, 0o660, 0o644])
      await assert.rejects(readSecret({ file: write('topsecret', mode) }, 'PIN'), (error: Error) => {
        assert.match(error.message, /lets others read it; use 600 or 400/)
        assert.doesNotMatch(error.message, /topsecret/)
        return true
      })
  })

  test('in a file that is not there, or none, is refused with its name', async () => {
    await assert.rejects(readSecret({ file: path.join(folder, 'absent') }, 'PIN'), /absent: cannot be read \(ENOENT\)/)
    await assert.rejects(readSecret({ file: folder }, 'PIN'), /is not a file/)
  })
})
