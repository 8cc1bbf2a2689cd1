/** Whatever an administrator does, by the Admin API, the command line or a signal, leaves an entry in the audit log. */

import assert from 'node:assert/strict'
import { scryptSync } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Authenticator } from '../../bench/client/authenticator.ts'
import { AUDIT_ACTIONS } from '../../src/domain/audit-chain.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { adminConfig, adminRequest, createAdministrator, signIn, TOKEN_SECRET } from '../support/admin.ts'
import { accountIdOf, change, made } from '../support/bound.ts'
import { catchIssuance } from '../support/caught-issuance.ts'
import { untilCompared } from '../support/compared.ts'
import { type Issuing, startIssuing } from '../support/issuing.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const KEY = 'ab'.repeat(32)
const CONSOLE = 'https://console.corp.example'
const ANOTHER_SECRET = 'another secret of 32 bytes or more, too'

interface Entry {
  action: string
  operator: boolean
}

describe('the audit log', () => {
  let at: Issuing
  let mails: MailServer
  const folder = temporaryFolder()
  const auditKey = path.join(folder, 'audit.key')
  before(async () => {
    mails = await startMailServer()
    writeFileSync(auditKey, Buffer.alloc(32, 7))
    const config = {
      // A key of its own: that of the secret would change with `eab reseal`.
      ...adminConfig({
        audit_key_file: auditKey,
        approvals: { new_names: true },
        console_url: `${CONSOLE}/api/console/`,
      }),
      crl: { enabled: true },
      smtp: { enabled: true, host: '127.0.0.1', port: mails.port, from_address: 'ca@example.com', tls: 'none' },
      notifications: { enabled: true },
      tos: { url: 'https://ca.example.test/terms', require_agreement: true, version: '2' },
      audit_retention: { enabled: true, max_age_days: 30, cleanup_interval_seconds: 1 },
    }
    at = await startIssuing(await startTestService({ config }))
  })
  after(async () => {
    await at.end()
    await at.service.dispose()
    await mails.close()
  })

  const entries = () =>
    at.sql<Entry>("SELECT action, details ? 'operator' AS operator FROM admin_audit_log ORDER BY sequence")
  const file = (name: string, text: string) => {
    const file = path.join(at.service.folder, name)
    writeFileSync(file, text)
    return file
  }

  async function logins(): Promise<void> {
    const { baseUrl } = at.service
    const { password } = JSON.parse(await operate(at.service, 'users', 'create', 'lou', '--json'))
    await (await signIn(baseUrl, 'lou', password)).send('POST', '/auth/logout')
    const lou = await signIn(baseUrl, 'lou', password)
    const chosen = { current_password: password, new_password: 'vacant orchid tram 61' }
    await lou.send('POST', '/me/password', chosen)
    const wanted = (await lou.send('POST', '/me/passkeys/options')).json
    const credential = new Authenticator(CONSOLE).create(wanted)
    const passkey = (await lou.send('POST', '/me/passkeys', { name: 'key', credential })).json.id
    await lou.send('PATCH', `/me/passkeys/${passkey}`, { name: 'blue key' })
    await adminRequest(baseUrl, 'POST', '/auth/login', { body: { username: 'lou', password: chosen.new_password } })
    await lou.send('DELETE', `/me/passkeys/${passkey}`)
    await lou.send('DELETE', `/me/sessions/${(await lou.get('/me/sessions')).json[0].id}`)
    await operate(at.service, 'users', 'reset-second-factor', 'lou')
    const body = { username: 'lou', password: 'wrong' }
    for (let n = 0; n < 5; n++) await adminRequest(baseUrl, 'POST', '/auth/login', { body })
    await operate(at.service, 'users', 'unlock', 'lou')
    await operate(at.service, 'users', 'reset-password', 'lou')
    const { id } = (await at.admin.get('/users?username=LOU')).json[0]
    await at.admin.send('PATCH', `/users/${id}`, { enabled: false })
    await at.admin.send('DELETE', `/users/${id}`)
    const digest = scryptSync('a password', 'saltsaltsaltsalt', 64, { N: 32768, r: 8, p: 1, maxmem: 2 ** 27 })
    const password_hash = `scrypt:32768:8:1$saltsaltsaltsalt$${digest.toString('hex')}`
    const imported = [{ username: 'ida', email: 'i@example.com', role: 'auditor', password_hash }]
    await operate(at.service, 'users', 'import', file('users.json', JSON.stringify(imported)))
    const token = await made(at.admin, '/tokens', { name: 'robot' })
    await at.admin.send('DELETE', `/tokens/${token.id}`)
  }

  async function grants(): Promise<void> {
    const account = accountIdOf(at.client)
    const profile = await made(at.admin, '/csr-profiles', { name: 'p', profile_data: {} })
    await at.admin.send('PUT', `/csr-profiles/${profile.id}`, { name: 'p', profile_data: { san_maximum: 3 } })
    // A name that was granted before needs no approval.
    const [identifier] = (await at.admin.get('/allowed-identifiers?value=approved.test')).json
    const eab = await made(at.admin, '/eab', { kid: 'team' })
    for (const association of [
      `/eab/${eab.id}/allowed-identifiers/${identifier.id}`,
      `/eab/${eab.id}/csr-profile/${profile.id}`,
      `/allowed-identifiers/${identifier.id}/accounts/${account}`,
      `/csr-profiles/${profile.id}/accounts/${account}`,
    ])
      for (const method of ['PUT', 'DELETE'] as const) await change(at.admin, method, association)
    await operate(at.service, 'eab', 'update', 'team', '--tags', 'team-a,plant')
    const lab = ['eab', 'create', 'lab', '--allow', 'a.lab.test', '--preapprove', '10.1.0.0/16']
    await operate(at.service, ...lab, '--emergency', 'nobody is here')
    await at.admin.send('POST', `/eab/${eab.id}/revoke`)
    await at.admin.send('DELETE', `/allowed-identifiers/${identifier.id}`)
    await at.admin.send('DELETE', `/csr-profiles/${profile.id}`)
    const changed = path.join(at.service.folder, 'changed')
    mkdirSync(changed)
    const config = readFileSync(path.join(at.service.folder, 'config.yaml'), 'utf8')
    writeFileSync(path.join(changed, 'config.yaml'), config.replace(TOKEN_SECRET, ANOTHER_SECRET))
    await chancery({ folder: changed }, 'eab', 'reseal', '--old-secret-file', file('old', TOKEN_SECRET))
    await operate(at.service, 'eab', 'reseal', '--old-secret-file', file('new', ANOTHER_SECRET))
  }

  async function approvals(): Promise<void> {
    const password = await createAdministrator(at.service.database, 'olga')
    const olga = await signIn(at.service.baseUrl, 'olga', password)
    await olga.send('POST', '/auth/confirm', { password })
    const headers = { 'approval-reason': 'a ticket' }
    const ask = async (kid: string) => {
      const body = { kid, allowed_identifiers: [`${kid}.test`] }
      const { token } = at.admin
      const reply = await adminRequest(at.service.baseUrl, 'POST', '/eab', { token, headers, body })
      return `/approvals/${reply.json.id}`
    }
    const approved = await ask('approved')
    await olga.send('POST', `${approved}/approve`)
    await at.admin.send('POST', `${approved}/collect`)
    await olga.send('POST', `${await ask('rejected')}/reject`, { reason: 'no' })
    await at.admin.send('POST', `${await ask('withdrawn')}/withdraw`)
    await operate(at.service, 'eab', 'create', 'urgent', '--allow', 'urgent.test', '--emergency', 'nobody is there')
  }

  async function certificates(): Promise<void> {
    await operate(at.service, 'terms', 'accept', '--all')
    await operate(at.service, 'terms', 'accept', '--account', accountIdOf(at.client))
    for (const name of ['one.test', 'two.test']) await at.client.obtain([name], at.responder)
    const { der, chain } = await at.client.obtain(['three.test'], at.responder)
    await untilCompared(at.service)
    const forget = () => at.sql('DELETE FROM certificates WHERE der = $1', [der])
    await forget()
    await operate(at.service, 'import', 'certificates', file('three.pem', chain))
    await catchIssuance({ query: at.sql }, der)
    await operate(at.service, 'import', 'certificates', file('three.pem', chain))
    await forget()
    await operate(at.service, 'reconcile', '--all')
    await at.sql(`INSERT INTO lost_decisions (id, decided_at, decided_by, act, subject, outcome, details)
                  VALUES (gen_random_uuid(), now(), 'alice', 'user.create', 'bob', 'lost', '{}')`)
    await at.admin.send('POST', '/lost-decisions/accept')
    const [{ serial_number: serial }] = (await at.admin.get('/certificates?domain=one.test')).json
    await operate(at.service, 'renewals', 'advise', '--all')
    await operate(at.service, 'renewals', 'clear', '--all')
    await at.admin.send('POST', '/at-risk/mutes', { serial_numbers: [serial], reason: 'known' })
    await at.admin.send('DELETE', '/at-risk/mutes', { serial_numbers: [serial] })
    await at.sql("UPDATE accounts SET contacts = '{mailto:team-a@example.com}' WHERE id = $1", [accountIdOf(at.client)])
    // Only owners of certificates that are due for renewal get a mail.
    await at.sql(
      `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '10 days'
        WHERE encode(serial_number, 'hex') = $1`,
      [serial],
    )
    await at.admin.send('POST', '/at-risk/notify', { serial_numbers: [serial] })
    await operate(at.service, 'certificates', 'revoke', serial)
    await at.admin.send('POST', '/certificates/bulk-revoke', { filter: { domain: 'two.test' } })
    await operate(at.service, 'keys', 'block', KEY)
    await operate(at.service, 'keys', 'unblock', KEY)
    const key = JSON.stringify({ spki_sha256: 'cd'.repeat(32) })
    await operate(at.service, 'incidents', 'begin', '--filter', key, '--block-key', 'true', '--confirm-count', '0')
    await operate(at.service, 'crl', 'rebuild')
    const [row] = await at.sql<{ id: string }>(
      `INSERT INTO backend_revocations (certificate_id, backend, der, reason)
       SELECT id, 'external', der, 0 FROM certificates LIMIT 1 RETURNING certificate_id AS id`,
    )
    await at.admin.send('DELETE', `/backend-revocations/${row?.id}`)
    await at.admin.send('PATCH', `/accounts/${accountIdOf(at.client)}`, { label: 'Team A' })
    await at.admin.send('POST', `/accounts/${accountIdOf(at.client)}/deactivate`)
  }

  async function operation(): Promise<void> {
    for (const words of [
      ['maintenance', 'on'],
      ['maintenance', 'off'],
      ['signing', 'stop'],
      ['signing', 'resume'],
    ])
      await operate(at.service, ...words)
    await at.sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, message_id, status)
       SELECT id, 'account_deactivated', 'ops@example.com', 'A subject', '', '', '', status
         FROM unnest($1::uuid[], $2::text[]) AS n (id, status)`,
      [
        [uuidv7(Date.now()), uuidv7(Date.now() - 40 * 86_400_000)],
        ['failed', 'sent'],
      ],
    )
    await operate(at.service, 'notifications', 'retry')
    await operate(at.service, 'notifications', 'purge')
    await at.admin.send('POST', '/notifications/test')
    await at.sql("INSERT INTO event_consumers (name, kinds) VALUES ('siem', '{alarm}')")
    const [letter] = await at.sql<{ id: string }>(
      `INSERT INTO event_dead_letters (consumer, event_id, kind, subject, occurred_at, data, attempts, error)
       VALUES ('siem', gen_random_uuid(), 'alarm', 'x', now(), '{}', 3, 'no') RETURNING id`,
    )
    await operate(at.service, 'events', 'retry', letter?.id ?? '')
    await operate(at.service, 'audit', 'export')
    at.service.process.kill('SIGHUP')
    await until('the reload is noted', async () => (await entries()).some(({ action }) => action === 'settings.reload'))
  }

  async function retention(): Promise<void> {
    await at.sql('ALTER TABLE admin_audit_log DISABLE TRIGGER USER')
    await at.sql("UPDATE admin_audit_log SET created_at = '2020-01-01' WHERE sequence = 1")
    await at.sql('ALTER TABLE admin_audit_log ENABLE TRIGGER USER')
    await until('the log is cut', async () => (await entries()).some(({ action }) => action === 'audit.cut'))
  }

  test('has every action after each was done, and those of the command line name its user', async () => {
    await logins()
    await approvals()
    await grants()
    await certificates()
    await operation()
    const seen = await entries()
    await retention()
    const actions = new Set([...seen, ...(await entries())].map(({ action }) => action))
    // Copies of another server's entries, and of entries that a fail-over lost: test/import/acmeeh.test.ts and
    // test/admin/audit-chain.test.ts have them.
    const copies = ['import.audit_entry', 'database.lost_entry']
    const done = AUDIT_ACTIONS.filter((action) => !copies.includes(action))
    assert.deepEqual([...actions].sort(), done.sort())
    const byCommand = new Set(seen.filter(({ operator }) => operator).map(({ action }) => action))
    for (const action of words`user.create user.import eab.reseal terms.accept certificate.import incident.begin key.block`)
      assert.ok(byCommand.has(action), action)
    assert.ok(!byCommand.has('settings.reload'))
  })
})
