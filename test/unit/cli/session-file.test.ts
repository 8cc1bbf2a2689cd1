/** The file of tokens of the remote command line. */

import assert from 'node:assert/strict'
import { chmodSync, chownSync, renameSync, statSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { keepToken, tokenFor } from '../../../src/cli/remote/remote-session.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const URL = 'https://ca.example/api'

describe('the file of tokens', () => {
  const former = { ...process.env }
  const base = temporaryFolder()
  const folder = path.join(base, 'chancery')
  const file = path.join(folder, 'tokens.json')
  before(() => {
    process.env['XDG_CONFIG_HOME'] = base
    delete process.env['CHANCERY_TOKEN']
    keepToken(URL, 'a token')
  })
  after(() => {
    process.env = former
  })

  test('a token is kept for its service, in a file of its owner alone', () => {
    assert.deepEqual([tokenFor(URL), tokenFor('https://other.example/api')], ['a token', undefined])
    assert.deepEqual([statSync(file).mode & 0o777, statSync(folder).mode & 0o777], [0o600, 0o700])
  })

  test('a file that others can read is refused', () => {
    chmodSync(file, 0o640)
    assert.throws(() => tokenFor(URL), /can be read by others/)
    assert.throws(() => keepToken(URL, 'another'), /can be read by others/)
    chmodSync(file, 0o600)
  })

  test('a file in a folder that others can write to is refused', () => {
    chmodSync(folder, 0o777)
    assert.throws(() => tokenFor(URL), /can be written by others/)
    chmodSync(folder, 0o700)
  })

  test('a file of another user is refused', { skip: process.getuid?.() !== 0 && 'needs root' }, () => {
    chownSync(file, 65_534, 65_534)
    assert.throws(() => tokenFor(URL), /belongs to another user/)
    chownSync(file, 0, 0)
  })

  test('a link to a file elsewhere is refused', () => {
    renameSync(file, `${file}.kept`)
    symlinkSync(`${file}.kept`, file)
    assert.throws(() => tokenFor(URL), /cannot be read/)
    renameSync(`${file}.kept`, file)
    assert.equal(tokenFor(URL), 'a token')
  })
})
