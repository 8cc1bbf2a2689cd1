/** `chancery admin`, `users`, `audit` and `eab reseal`: administrators from the command line. */

import assert from 'node:assert/strict'
import { scryptSync } from 'node:crypto'
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { MOST_OF_ADDRESS, MOST_OF_USERNAME } from '../../src/domain/rate-limit.ts'
import { boxOf } from '../../src/settings/account-settings.ts'
import { settingsFor } from '../store/support.ts'
import { type AdminClient, adminRequest, signIn, TOKEN_SECRET, withAuditLog } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { testDatabase } from '../support/database.ts'
import { chancery, createCredential, operate } from '../support/operator.ts'
import { withQuery } from '../support/revoked.ts'
import type { TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { configFor, runWith } from './support.ts'

const WERKZEUG_PASSWORD = 'a password of the former server'

function werkzeugHash(password: string): string {
  const digest = scryptSync(password, 'saltsaltsaltsalt', 64, { N: 32768, r: 8, p: 1, maxmem: 2 ** 27 })
  return `scrypt:32768:8:1$saltsaltsaltsalt$${digest.toString('hex')}`
}

/** The key of an account at an upstream ACME service is sealed like those of credentials. */
async function addUpstreamAccount({ database }: TestService): Promise<void> {
  const id = crypto.randomUUID()
  const sealed = boxOf(TOKEN_SECRET).seal(Buffer.from('key'), id)
  await withQuery(database.connection, (query) =>
    query(
      "INSERT INTO upstream_accounts (id, directory_url, email, sealed_key) VALUES ($1, 'https://ca.test/', 'a@b.test', $2)",
      [id, sealed],
    ),
  )
}

test('the first user needs nobody else where two have to agree, the second does', async () => {
  const database = await testDatabase()
  try {
    const config = configFor(settingsFor(database.connection, 1), path.join(temporaryFolder(), 'config.yaml'))
    appendFileSync(
      config,
      `admin_api: { enabled: true, token_secret: ${JSON.stringify(TOKEN_SECRET)}, initial_admin_email: a@example.com, approvals: { user_changes: true } }\n`,
    )
    const first = await runWith(config, 'admin', 'create-user')
    assert.deepEqual([first.code, first.complaint], [0, 'The password is not shown again.\n'])
    const second = await runWith(config, 'users', 'create', 'bob', '--email', 'b@example.com')
    assert.equal(second.code, 1)
    assert.match(second.complaint, /another person must approve this: Create the auditor bob/)
  } finally {
    await database.drop()
  }
})

describe('administration from the command line', () => {
  const { service, sql } = administered(() => sharedService('admin'))
  let admin: AdminClient

  const run = (...words: string[]) => chancery(service, ...words)
  const file = (name: string, text: string) => {
    const at = path.join(service.folder, name)
    writeFileSync(at, text)
    return at
  }

  test('the first administrator: a password printed once, the address of the configuration', async () => {
    const { code, stdout, stderr } = await run('admin', 'create-user')
    assert.equal(code, 0, stderr)
    const password = /^password {2}(\S{20})$/m.exec(stdout)?.[1] ?? ''
    admin = await signIn(service.baseUrl, 'admin', password)
    const me = (await admin.get('/me')).json
    assert.deepEqual([me.role, me.email], ['admin', 'admin@example.com'])
    const again = await run('admin', 'create-user')
    assert.equal(again.code, 1)
    assert.match(again.stderr, /there is a user "admin" already/)
  })

  test('users are made, listed, changed and deleted, with the operator in the audit log', async () => {
    const made = JSON.parse(await operate(service, 'users', 'create', 'bob', '--email', 'b@example.com', '--json'))
    assert.equal(made.role, 'auditor')
    await signIn(service.baseUrl, 'bob', made.password)
    assert.match(await operate(service, 'users', 'list'), /^\S+ +bob +b@example\.com +auditor +- +true$/m)
    const registrar = ['users', 'update', 'bob', '--role', 'registrar']
    assert.equal((await run(...registrar)).code, 2)
    assert.match(
      await operate(service, ...registrar, '--scope', 'team-b, team-a'),
      /bob is registrar of team-a, team-b, enabled/,
    )
    assert.match(await operate(service, 'users', 'update', 'bob', '--role', 'admin'), /bob is admin, enabled/)
    const reset = JSON.parse(await operate(service, 'users', 'reset-password', 'BOB', '--json'))
    assert.notEqual(reset.password, made.password)
    await operate(service, 'users', 'delete', '--username', 'bob')
    assert.equal((await run('users', 'delete', 'bob')).code, 1)
    assert.match(await operate(service, 'users', 'create', '--username', 'eve', '--email', 'e@example.com'), /password/)
    const [entry] = (await admin.get('/audit-log?action=user.delete')).json
    assert.deepEqual([entry.user_id, typeof entry.details.operator], [null, 'string'])
  })

  test('the last admin stays', async () => {
    const { code, stderr } = await run('users', 'update', 'admin', '--enabled', 'false')
    assert.equal(code, 1)
    assert.match(stderr, /last enabled admin/)
  })

  test('wrong usage is told before anything happens', async () => {
    for (const words of [
      ['users', 'update', 'admin'],
      ['users', 'create', 'x', '--role', 'root'],
      ['audit', 'verify', '--head', 'x'],
      ['eab', 'reseal'],
      ['users', 'unlock-address', 'locked'],
    ])
      assert.equal((await run(...words)).code, 2, words.join(' '))
    for (const words of [
      ['users', 'create', 'a b'],
      ['accounts', 'list', '--limit', '0'],
      ['accounts', 'list', '--limit', '100000'],
      ['accounts', 'list', '--status', 'foo'],
    ])
      assert.equal((await run(...words)).code, 2, words.join(' '))
  })

  test('a locked username is unlocked, and a locked address', async () => {
    const { password } = JSON.parse(await operate(service, 'users', 'create', 'locked', '--json'))
    const login = (word: string) =>
      adminRequest(service.baseUrl, 'POST', '/auth/login', { body: { username: 'locked', password: word } })
    await login('wrong')
    // The next failure is the last one that both are allowed.
    await sql(
      "UPDATE admin_login_limits SET failures = CASE WHEN subject LIKE 'address %' THEN $1::integer ELSE $2 END",
      [MOST_OF_ADDRESS - 1, MOST_OF_USERNAME - 1],
    )
    assert.equal((await login('wrong')).status, 401)
    assert.equal((await login(password)).status, 429)
    assert.match(await operate(service, 'users', 'unlock', 'locked'), /may log in again/)
    assert.match(await operate(service, 'users', 'unlock', 'locked'), /no failed logins/)
    // Its address is locked for itself.
    assert.equal((await login(password)).status, 429)
    const [limit] = await sql(
      "SELECT replace(subject, 'address ', '') AS address FROM admin_login_limits WHERE subject LIKE 'address %'",
    )
    const address = String(limit?.['address'])
    assert.match(await operate(service, 'users', 'unlock-address', address), /may log in again from/)
    assert.match(await operate(service, 'users', 'unlock-address', address), /no failed logins/)
    assert.equal((await login(password)).status, 200)
    const [entry] = (await admin.get('/audit-log?action=user.unlock')).json
    assert.deepEqual([entry.details.address, typeof entry.details.operator], [address, 'string'])
  })

  test('users of another server come with their hashes, and get a better one with the first login', async () => {
    const hash = werkzeugHash(WERKZEUG_PASSWORD)
    const user = (username: string) => ({ username, email: 'x@example.com', role: 'auditor', password_hash: hash })
    const array = file('users.json', JSON.stringify([user('ida'), { ...user('ivo'), enabled: false }]))
    assert.match(await operate(service, 'users', 'import', array), /2 users are imported/)
    const lines = file('users.ndjson', `${JSON.stringify(user('ida'))}\n${JSON.stringify(user('iris'))}\n`)
    const second = JSON.parse(await operate(service, 'users', 'import', lines, '--json'))
    assert.deepEqual(second, { imported: 1, taken: ['ida'] })
    await signIn(service.baseUrl, 'ida', WERKZEUG_PASSWORD)
    await withQuery(service.database.connection, async (query) => {
      const [row] = await query("SELECT password_hash FROM admin_users WHERE username = 'ida'")
      assert.match(String(row?.password_hash), /^\$argon2id\$/)
    })
    await signIn(service.baseUrl, 'ida', WERKZEUG_PASSWORD)
  })

  test('a file with anything wrong in it imports nobody, and shows no hash', async () => {
    const wrong = file(
      'wrong.json',
      JSON.stringify([{ username: 'a b', email: 'x', role: 'root', password_hash: 'md5:secret', admin: true }, 7]),
    )
    const { code, stderr } = await run('users', 'import', wrong)
    assert.equal(code, 1)
    for (const name of ['username', 'email', 'role', 'password_hash', 'admin'])
      assert.match(stderr, new RegExp(`'${name}'`))
    assert.match(stderr, /user 2: is not a JSON object/)
    assert.doesNotMatch(stderr, /secret/)
    assert.equal((await run('users', 'import', file('broken.json', '{"username": "hash of x"'))).code, 1)
  })

  test('audit verify: whole, against a head noted earlier, and after a change', async () => {
    const verdict = JSON.parse(await operate(service, 'audit', 'verify', '--json'))
    assert.deepEqual([verdict.whole, verdict.faults], [true, []])
    const whole = await operate(service, 'audit', 'verify', '--head', verdict.head)
    assert.match(whole, /the audit log is whole/)
    assert.match(whole, new RegExp(`^not seen {2}.* after ${verdict.head.split(':')[0]}.*audit_head.*--head`, 'm'))
    await withAuditLog(service.database, (audit) =>
      audit.continueWithoutAuthor({ userId: undefined, ipAddress: undefined }, async (_tx, note) => {
        for (const sequence of [120, 121])
          note('database.lost_entry', { sequence, mac: 'ab'.repeat(32), at: '2026-03-01T21:04:12Z' })
      }),
    )
    assert.match(
      await operate(service, 'audit', 'verify'),
      /^of them 2 were lost by a fail-over and are written back:\n2 entries, 120 to 121, of .* written back as \d+ to \d+ at /m,
    )
    const [first] = await sql<{ mac: string }>(
      "SELECT encode(mac, 'hex') AS mac FROM admin_audit_log WHERE sequence = 1",
    )
    const noted = ['--head', `1:${first?.mac}`, '--head', verdict.head]
    assert.match(await operate(service, 'audit', 'verify', ...noted), /the audit log is whole/)
    const wrong = await run('audit', 'verify', ...noted, '--head', `1:${'0'.repeat(64)}`)
    assert.deepEqual([wrong.code, wrong.stderr.trim()], [1, 'entry 1 is not the one of the noted head'])
    const ahead = `${verdict.entries + 5}:${'0'.repeat(64)}`
    const cut = await run('audit', 'verify', '--head', ahead)
    assert.equal(cut.code, 1)
    assert.match(cut.stderr, /missing at the end/)
    await withQuery(service.database.connection, async (query) => {
      await query('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
      await query("UPDATE admin_audit_log SET ip_address = '192.0.2.9' WHERE sequence = 2")
      await query('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
    })
    const changed = await run('audit', 'verify')
    assert.equal(changed.code, 1)
    assert.match(changed.stderr, /^entry 2 was changed/m)
    // As another instance would hold it.
    await sql('INSERT INTO audit_verifications (id) VALUES (gen_random_uuid())')
    const second = await run('audit', 'verify')
    assert.equal(second.code, 1)
    assert.match(second.stderr, /checked already/)
    await sql("UPDATE audit_verifications SET progressed_at = now() - interval '1 minute'")
    assert.match((await run('audit', 'verify')).stderr, /^entry 2 was changed/m)
  })

  test('eab reseal moves every key to the new secret, or none', async () => {
    const credential = await createCredential(service, 'team-a')
    await createCredential(service, 'team-b')
    await addUpstreamAccount(service)
    const sealed = () =>
      withQuery(service.database.connection, (query) => query('SELECT kid, hmac_key FROM eab_credentials ORDER BY kid'))
    const before = await sealed()
    // The same service with another secret.
    const folder = path.join(service.folder, 'changed')
    mkdirSync(folder)
    const config = readFileSync(path.join(service.folder, 'config.yaml'), 'utf8')
    assert.ok(config.includes(TOKEN_SECRET))
    writeFileSync(
      path.join(folder, 'config.yaml'),
      config.replace(TOKEN_SECRET, 'another secret of 32 bytes or more, too'),
    )
    const reseal = (name: string, text: string) =>
      chancery({ folder }, 'eab', 'reseal', '--old-secret-file', file(name, text), '--json')
    const wrong = await reseal('wrong-secret', 'neither of the two secrets')
    assert.equal(wrong.code, 1)
    assert.match(wrong.stderr, /"team-a" opens under neither secret; nothing is changed/)
    assert.deepEqual(await sealed(), before)
    const first = await reseal('old-secret', `${TOKEN_SECRET}\n`)
    assert.deepEqual(JSON.parse(first.stdout), { resealed: 3, kept: 0 })
    assert.deepEqual(JSON.parse((await reseal('old-secret', TOKEN_SECRET)).stdout), { resealed: 0, kept: 3 })
    // Back again: under the former secret the former key opens.
    const secret = file('new-secret', 'another secret of 32 bytes or more, too')
    const back = await chancery(service, 'eab', 'reseal', '--json', '--old-secret-file', secret)
    assert.deepEqual(JSON.parse(back.stdout), { resealed: 3, kept: 0 })
    assert.equal(credential.hmacKey.length, 32)
  })
})
