/**
 * Each key of `admin_api` has its effect. Those with tests of their own: `listen`, `base_path` and
 * `max_body_bytes` in listener.test.ts, `bulk_revoke_confirm_above` in bulk-revocations.test.ts.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { verifyAuditLog } from '../../src/admin/audit/audit-verification.ts'
import type { Config } from '../../src/config/schema.ts'
import { requireAuditKey } from '../../src/settings/admin-settings.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, clientWith, signIn, TOKEN_SECRET } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { testDatabase } from '../support/database.ts'
import { operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

const EXPIRY_SECONDS = 1_234
const KEY = randomBytes(40)

describe('admin_api', () => {
  const { service, sql } = administered(() => sharedService('small pages'))
  let admin: AdminClient
  let password: string
  before(async () => {
    password = /^password {2}(\S+)$/m.exec(await operate(service, 'admin', 'create-user'))?.[1] ?? ''
    admin = await signIn(service.baseUrl, 'admin', password)
  })

  test('initial_admin_email is the address of the first administrator', async () => {
    assert.equal((await admin.get('/me')).json.email, 'first@example.com')
  })

  test('password_length is that of every generated password', async () => {
    const made = await admin.send('POST', '/users', { username: 'bob', email: 'bob@example.com' })
    assert.deepEqual([password.length, made.json.password.length], [33, 33])
  })

  test('token_expiry_seconds ends the token and its session', async () => {
    const { iat, exp, jti } = JSON.parse(Buffer.from(admin.token.split('.')[1] as string, 'base64url').toString())
    assert.ok(Math.abs(exp - iat - EXPIRY_SECONDS) <= 2, `${exp - iat}`)
    const [session] = await sql<{ seconds: number }>(
      'SELECT extract(epoch FROM expires_at - created_at)::integer AS seconds FROM admin_sessions WHERE id = $1',
      [jti],
    )
    assert.ok(Math.abs(Number(session?.seconds) - EXPIRY_SECONDS) <= 2, `${session?.seconds}`)
  })

  test('default_page_size and max_page_size bound pages', async (context) => {
    const instance = await adminInstance(service, { admin_api: { max_page_size: 3 } })
    context.after(() => instance.close())
    for (let n = 0; n < 4; n++) await admin.send('POST', '/tokens', { name: `token ${n}` })
    const here = clientWith(instance.baseUrl, admin.token)
    assert.equal((await here.get('/audit-log')).json.length, 2)
    assert.equal((await here.get('/audit-log?limit=3')).json.length, 3)
    assert.match((await here.get('/audit-log?limit=4')).text, /must be a whole number from 1 to 3/)
  })

  test('audit_key_file is the key of the audit log, in place of one made from token_secret', async (context) => {
    const database = await testDatabase()
    context.after(() => database.drop())
    const audit_key_file = path.join(service.folder, 'audit.key')
    writeFileSync(audit_key_file, KEY)
    const name = database.connection.database
    const instance = await adminInstance(service, { admin_api: { audit_key_file }, database: { database: name } })
    context.after(() => instance.close())
    const made = await operate(instance, 'users', 'create', 'alice', '--role', 'admin', '--json')
    const alice = await signIn(instance.baseUrl, 'alice', JSON.parse(made).password)
    assert.equal((await alice.send('POST', '/tokens', { name: 'one' })).status, 201)
    const derived = requireAuditKey({ admin_api: { audit_key_file: null, token_secret: TOKEN_SECRET } } as Config)
    const db = await openCheckedDatabase(settingsFor(database.connection, 1))
    try {
      assert.deepEqual((await verifyAuditLog(db, KEY, [])).faults, [])
      assert.match((await verifyAuditLog(db, derived, [])).faults.join(), /no entry fits: the key/)
    } finally {
      await db.end()
    }
    assert.match(await operate(instance, 'audit', 'verify'), /the audit log is whole/)
  })
})
