/**
 * Each key of `admin_api` has its effect. Those with tests of their own: `listen` and
 * `max_body_bytes` in listener.test.ts, `bulk_revoke_confirm_above` in bulk-revocations.test.ts.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { verifyAuditLog } from '../../src/admin/audit/audit-verification.ts'
import type { Config } from '../../src/config/schema.ts'
import { requireAuditKey } from '../../src/settings/admin-settings.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type AdminClient, adminConfig, adminRequest, signIn, TOKEN_SECRET } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'

const EXPIRY_SECONDS = 1_234
const KEY = randomBytes(40)

describe('admin_api', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-admin-keys-'))
  let service: TestService
  /** Of the base path, without its last part. */
  let base: string
  let admin: AdminClient
  let password: string
  before(async () => {
    const audit_key_file = path.join(folder, 'audit.key')
    writeFileSync(audit_key_file, KEY)
    const keys = { base_path: '/manage/api', token_expiry_seconds: EXPIRY_SECONDS, password_length: 33, audit_key_file }
    const pages = { default_page_size: 2, max_page_size: 3 }
    service = await startTestService({
      config: adminConfig({ ...keys, ...pages, initial_admin_email: 'first@example.com' }),
    })
    base = `${service.baseUrl}/manage`
    password = /^password {2}(\S+)$/m.exec(await operate(service, 'admin', 'create-user'))?.[1] ?? ''
    admin = await signIn(base, 'admin', password)
  })
  after(async () => {
    await service.dispose()
    rmSync(folder, { recursive: true })
  })

  test('base_path is in front of every resource, and nowhere else is one', async () => {
    assert.equal((await adminRequest(base, 'GET', '')).json.name, 'chancery')
    assert.equal((await adminRequest(service.baseUrl, 'GET', '')).status, 404)
    const link = (await admin.get('/audit-log?limit=1')).headers.get('link') ?? ''
    assert.ok(link.startsWith(`<${base}/api/audit-log?`), link)
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
    const [session] = await rowsIn<{ seconds: number }>(
      service.database,
      'SELECT extract(epoch FROM expires_at - created_at)::integer AS seconds FROM admin_sessions WHERE id = $1',
      [jti],
    )
    assert.ok(Math.abs(Number(session?.seconds) - EXPIRY_SECONDS) <= 2, `${session?.seconds}`)
  })

  test('default_page_size and max_page_size bound pages', async () => {
    for (let n = 0; n < 4; n++) await admin.send('POST', '/tokens', { name: `token ${n}` })
    assert.equal((await admin.get('/audit-log')).json.length, 2)
    assert.equal((await admin.get('/audit-log?limit=3')).json.length, 3)
    assert.match((await admin.get('/audit-log?limit=4')).text, /must be a whole number from 1 to 3/)
  })

  test('audit_key_file is the key of the audit log, in place of one made from token_secret', async () => {
    const derived = requireAuditKey({ admin_api: { audit_key_file: null, token_secret: TOKEN_SECRET } } as Config)
    const db = await openCheckedDatabase(settingsFor(service.database.connection, 1))
    try {
      assert.deepEqual((await verifyAuditLog(db, KEY, [])).faults, [])
      assert.match((await verifyAuditLog(db, derived, [])).faults.join(), /no entry fits: the key/)
    } finally {
      await db.end()
    }
    assert.match(await operate(service, 'audit', 'verify'), /the audit log is whole/)
  })
})

test('admin_api.enabled: false, the default, offers nothing', async (context) => {
  const service = await startTestService({ fronts: 1 })
  context.after(() => service.dispose())
  for (const target of ['', '/auth/login', '/openapi.json'])
    assert.equal((await adminRequest(service.baseUrl, 'GET', target)).status, 404)
})
