/** `chancery keys`: blocked keys from the command line; and the former names of commands. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { administrator } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

const HASH = 'ab'.repeat(32)

describe('keys from the command line', () => {
  const { service } = administered(() => sharedService('admin'))

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
      const { json } = await admin.get(`/audit-log?action=${action}`)
      const about = json.filter(({ details }: { details: { spki_sha256: string } }) => details.spki_sha256 === HASH)
      assert.equal(about.length, 1)
    }
  })

  test('what is no SHA-256 is refused with a sentence', async () => {
    const { code, stderr } = await chancery(service, 'keys', 'block', 'abcd')
    assert.equal(code, 2)
    assert.match(stderr, /'spki_sha256' /)
  })

  test('a word too many and a missing word are named, with the help of the command', async () => {
    assert.match((await chancery(service, 'renewals', 'clear', '0a')).stderr, /see chancery renewals clear --help/)
    assert.match((await chancery(service, 'import', 'certificates')).stderr, /import certificates needs <path>/)
  })
})
