/**
 * The reference server's own admin client, ACMEEH-admin 1.0.1, unmodified, with every command it has. No registry of Debian or npm
 * offers it: whoever has it on the PATH as `acmeeh-admin` runs this test. admin-client.test.ts replays its requests for the others.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { csrFor, registeredClient, startResponder } from '../support/acme-client.ts'
import { adminConfig, createAdministrator } from '../support/admin.ts'
import { accountIdOf } from '../support/bound.ts'
import type { CommandResult } from '../support/commands.ts'
import { rowsIn } from '../support/database.ts'
import { hasCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'

const skip = hasCommand('acmeeh-admin') ? false : 'acmeeh-admin is not on the PATH'

describe("the reference server's admin client, every command", { skip }, () => {
  const home = mkdtempSync(path.join(tmpdir(), 'chancery-acmeeh-'))
  let service: TestService
  let password: string
  let account: string
  before(async () => {
    service = await startTestService({
      config: { ...adminConfig({ default_page_size: 2 }), crl: { enabled: true }, smtp: { enabled: false } },
    })
    password = await createAdministrator(service.database, 'rita')
    const responder = await startResponder(service.http01Port)
    const acme = await registeredClient(service.directoryUrl)
    for (const name of ['www.rita.test', 'mail.rita.test']) await acme.obtain([name], responder)
    account = accountIdOf(acme)
    await responder.close()
    const { code, stderr } = await run(['login'], `rita\n${password}\n`)
    assert.equal(code, 0, stderr)
  })
  after(async () => {
    await service?.dispose()
    rmSync(home, { recursive: true })
  })

  function run(words: readonly string[], input = ''): Promise<CommandResult> {
    const child = spawn('acmeeh-admin', ['--server', service.baseUrl, '--format', 'json', ...words], {
      env: { ...process.env, HOME: home, ACMEEH_ADMIN_TOKEN: '', ACMEEH_ADMIN_URL: '' },
    })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.stdin.end(input)
    return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })))
  }

  async function done(...words: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(words)
    assert.equal(code, 0, `${words.join(' ')}: ${stderr}${stdout}`)
    return stdout
  }
  // biome-ignore lint/suspicious/noExplicitAny: replies of any shape
  const json = async (...words: string[]): Promise<any> => JSON.parse(await done(...words))

  test('users', async () => {
    const { id, password } = await json('users', 'create', 'uwe', 'uwe@example.com', '--role', 'auditor')
    assert.equal(password.length, 20)
    assert.ok((await json('users', 'list')).some(({ username }: { username: string }) => username === 'uwe'))
    assert.equal((await json('users', 'get', id)).username, 'uwe')
    assert.equal((await json('users', 'update', id, '--disabled')).enabled, false)
    assert.equal((await json('users', 'update', id, '--role', 'admin')).role, 'admin')
    await done('users', 'delete', id, '--yes')
    assert.equal((await json('users', 'me')).username, 'rita')
  })

  test('audit', async () => {
    const page = await json('audit', 'list', '--limit', '1', '--since', '2020-01-31')
    assert.equal(page.length, 1)
    const file = path.join(home, 'audit.jsonl')
    await done('audit', 'export', '-o', file)
    assert.ok(readFileSync(file, 'utf8').trim().split('\n').length > 3)
    assert.match(await done('audit', 'export', '--action', 'auth.login'), /auth\.login/)
  })

  test('eab, identifiers and profiles', async () => {
    const eab = (await json('eab', 'create', 'team-r', '--label', 'a team')).id
    assert.equal((await json('eab', 'list'))[0].kid, 'team-r')
    assert.equal((await json('eab', 'get', eab)).label, 'a team')
    const identifier = (await json('identifiers', 'create', 'dns', '*.rita.example')).id
    assert.equal((await json('identifiers', 'list'))[0].id, identifier)
    assert.equal((await json('identifiers', 'get', identifier)).identifier_value, '*.rita.example')
    await done('eab', 'add-identifier', eab, identifier)
    assert.equal((await json('eab', 'list-identifiers', eab)).length, 1)
    await done('eab', 'remove-identifier', eab, identifier)
    await done('identifiers', 'add-account', identifier, account)
    assert.equal((await json('identifiers', 'list-for-account', account)).length, 1)
    await done('identifiers', 'remove-account', identifier, account)

    const profile = (await json('profiles', 'create', 'servers', '{"san_maximum": 1}', '--description', 'd')).id
    assert.equal((await json('profiles', 'list'))[0].name, 'servers')
    assert.equal((await json('profiles', 'update', profile, 'hosts', '{"san_maximum": 2}')).name, 'hosts')
    assert.deepEqual((await json('profiles', 'get', profile)).profile_data, { san_maximum: 2 })
    const csr = Buffer.from(await csrFor(['a.test']), 'base64url').toString('base64')
    assert.deepEqual(await json('profiles', 'validate', profile, csr), { valid: true, violations: [] })
    await done('profiles', 'get-for-account', account)
    await done('profiles', 'assign-account', profile, account)
    assert.equal((await json('profiles', 'get-for-account', account)).id, profile)
    await done('profiles', 'unassign-account', profile, account)
    await done('eab', 'get-profile', eab)
    await done('eab', 'assign-profile', eab, profile)
    assert.equal((await json('eab', 'get-profile', eab)).id, profile)
    await done('eab', 'unassign-profile', eab)
    await done('profiles', 'delete', profile, '--yes')
    await done('identifiers', 'delete', identifier, '--yes')
    assert.equal((await json('eab', 'revoke', eab)).revoked, true)
  })

  test('certificates', async () => {
    const [found] = await json('certificates', 'search', '--domain', 'www.rita.test', '--status', 'active')
    const { serial_number: serial, fingerprint } = found
    const all = ['--account-id', account, '--expiring-before', '2100-01-01', '--limit', '10', '--offset', '0']
    assert.equal((await json('certificates', 'search', ...all)).length, 2)
    assert.equal((await json('certificates', 'search', '--serial', serial)).length, 1)
    assert.equal((await json('certificates', 'get', serial)).fingerprint, fingerprint)
    assert.equal((await json('certificates', 'get-by-fingerprint', fingerprint)).serial_number, serial)
    const filter = '{"domain": "www.rita.test"}'
    assert.equal((await json('certificates', 'bulk-revoke', filter, '--dry-run')).matching_certificates, 1)
    const revoked = await json('certificates', 'bulk-revoke', filter, '--reason', '4')
    assert.deepEqual([revoked.revoked, revoked.errors, revoked.total_matched], [1, [], 1])
  })

  test('notifications', async () => {
    const [row] = await rowsIn<{ id: string }>(
      service.database,
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, message_id, status, error_detail)
       VALUES (gen_random_uuid(), 'account_deactivated', 'ops@example.com', 'A subject', '', '', '', 'failed', 'no') RETURNING id`,
    )
    const [failed] = await json('notifications', 'list', '--status', 'failed', '--limit', '5', '--offset', '0')
    assert.deepEqual([failed.id, failed.error_detail], [row?.id, 'no'])
    assert.deepEqual(await json('notifications', 'retry'), { retried: 1 })
    assert.ok((await json('notifications', 'purge')).purged >= 0)
    assert.ok((await json('notifications', 'purge', '--days', '7')).purged >= 0)
  })

  test('crl and maintenance', async () => {
    assert.equal((await json('crl', 'rebuild')).revoked_count, 1)
    assert.equal((await json('maintenance', 'set', 'on')).maintenance_mode, true)
    assert.equal((await json('maintenance', 'set', 'off')).maintenance_mode, false)
    assert.equal((await json('maintenance', 'status')).maintenance_mode, false)
  })

  test('tables, errors, a new password, and the end of the session', async () => {
    const table = (words: string[]) => run(['--format', 'table', ...words])
    for (const words of [
      ['users', 'list'],
      ['audit', 'list'],
      ['eab', 'list'],
      ['certificates', 'search'],
    ]) {
      const { code, stdout, stderr } = await table(words)
      assert.equal(code, 0, stderr)
      assert.ok(stdout.trim().split('\n').length > 1, stdout)
    }
    const unknown = await run(['users', 'get', '0192a1b2-0000-7000-8000-000000000000'])
    assert.equal(unknown.code, 1)
    assert.match(unknown.stderr, /404.*there is no such user/)
    // It sends no current password, without which a stolen session would be a stolen account.
    const refused = await run(['users', 'reset-password'])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /400/)
  })

  test('login and logout', async () => {
    const again = await createAdministrator(service.database, 'ralf')
    const { code, stdout } = await run(['login'], `ralf\n${again}\n`)
    assert.equal(code, 0)
    assert.match(stdout, /Logged in as ralf/)
    await done('logout')
    assert.notEqual((await run(['users', 'me'])).code, 0)
  })
})
