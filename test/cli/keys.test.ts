/** `chancery keys`: blocked keys from the command line; and the former names of commands. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { adminConfig, administrator } from '../support/admin.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'

const HASH = 'ab'.repeat(32)

describe('keys from the command line', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({ config: adminConfig() })
  })
  after(() => service.dispose())

  test('a key is blocked, listed and unblocked, with entries in the audit log', async () => {
    assert.equal(JSON.parse(await operate(service, 'keys', 'block', HASH.toUpperCase(), '--json')).spki_sha256, HASH)
    const again = await chancery(service, 'keys', 'block', HASH)
    assert.equal(again.code, 1)
    assert.match(again.stderr, /blocked already/)
    assert.match(await operate(service, 'keys', 'list'), new RegExp(`^${HASH} `, 'm'))
    assert.equal(JSON.parse(await operate(service, 'keys', 'list', '--json')).length, 1)
    assert.equal((await chancery(service, 'keys', 'unblock', HASH)).stderr, 'done\n')
    assert.equal((await chancery(service, 'keys', 'unblock', HASH)).code, 1)
    const admin = await administrator(service, 'reader')
    for (const action of ['key.block', 'key.unblock']) {
      const entries = (await admin.get(`/audit-log?action=${action}`)).json
      assert.deepEqual([entries.length, entries[0].details.spki_sha256], [1, HASH])
    }
  })

  test('what is no SHA-256 is refused with a sentence', async () => {
    const { code, stderr } = await chancery(service, 'keys', 'block', 'abcd')
    assert.equal(code, 2)
    assert.match(stderr, /'spki_sha256' /)
  })

  test('a word too many and a missing word are named, with the help of the command', async () => {
    assert.match((await chancery(service, 'renewals', 'clear', '0a')).stderr, /see chancery renewals clear --help/)
    assert.match((await chancery(service, 'certificates', 'import')).stderr, /certificates import needs <file>/)
  })
})
