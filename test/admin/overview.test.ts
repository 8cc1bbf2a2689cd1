/** What the console asks for besides lists: overview, settings, failures, counts, previews and checks. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type AcmeClient, type Responder, registeredClient, startResponder } from '../support/acme-client.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, clientWith, TOKEN_SECRET } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made, NOBODY } from '../support/bound.ts'
import { failHttp01 } from '../support/clients/failing.ts'
import { withQuery } from '../support/revoked.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('what the console asks for', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  let responder: Responder
  let client: AcmeClient
  let credential: MadeCredential
  before(async () => {
    responder = await startResponder(service.http01Port)
    credential = await made<MadeCredential>(admin, '/eab', { kid: 'team' })
    client = await boundClient(service, credential)
    await client.obtain(['www.shop.test', 'shop.test'], responder)
    await client.obtain(['mail.shop.test'], responder)
    await admin.send('POST', '/crl/rebuild')
  })
  after(async () => {
    await responder.close()
  })

  const overview = async (reader = auditor) => (await reader.get('/overview')).json

  describe('the overview', () => {
    test('says what alarms there were within a day, with their reason and the time of the last', async () => {
      for (let n = 0; n < 2; n++)
        await sql(
          `INSERT INTO event_deliveries (consumer, event_id, kind, subject, occurred_at, data)
           VALUES ('statistics', gen_random_uuid(), 'alarm', 'x', now(), $1)`,
          [{ message: 'a CRL cannot be published', reason: 'the signer is away' }],
        )
      const { message } = await until('both are counted', async () =>
        (await overview()).alarms.find(({ message }: { message: string }) => message.includes('2 times')),
      )
      assert.match(message, /^a CRL cannot be published: the signer is away \(2 times, last at 20\d\d-.*Z\)$/)
      await sql('DELETE FROM raised_alarms')
    })

    test('shows an auditor numbers, issuers and the state of all parts', async () => {
      const seen = await until('the certificates are counted', async () => {
        const now = await overview()
        return now.issued_of_day === 2 && now
      })
      assert.deepEqual(
        seen.issued
          .map(({ certificates }: { certificates: number }) => certificates)
          .reduce((a: number, b: number) => a + b),
        2,
      )
      assert.deepEqual(seen.instance.database, 'ok')
      assert.deepEqual(seen.instance.ca_backend, { status: 'ok', reason: null, tokens: [] })
      assert.equal(seen.issuers.length, 1)
      assert.match(seen.issuers[0].fingerprint, /^[0-9a-f]{64}$/)
      assert.ok(Date.parse(seen.issuers[0].not_after) > Date.now())
      assert.deepEqual(
        seen.expiring.map(({ days, more }: { days: number; more: boolean }) => [days, more]),
        [1, 7, 14, 30].map((days) => [days, false]),
      )
      assert.equal(seen.maintenance.maintenance_mode, false)
      assert.equal(seen.crl.enabled, true)
      assert.equal(seen.crl.lists[0].entries, 0)
      assert.match(seen.crl.lists[0].number, /^\d+$/)
      assert.deepEqual((await auditor.get('/crl')).json.lists, seen.crl.lists)
    })

    test('says what to look at, the worst first', async () => {
      await sql(
        `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, message_id)
         SELECT gen_random_uuid(), 'delivery_failed', 'a@example.com', 's', 't', 'h', 'failed', 'm' || n
           FROM generate_series(1, 2) n`,
        [],
      )
      await admin.send('POST', '/signing', { stopped: true, reason: 'exercise' })
      try {
        const stopped = await until('signing is seen to be stopped', async () => {
          const now = await overview()
          return now.instance?.ca_backend.status === 'stopped' && now
        })
        const wanted = ['signing_stopped', 'notifications']
        const alarms = stopped.alarms.filter(({ code }: { code: string }) => wanted.includes(code))
        assert.deepEqual(alarms, [
          {
            severity: 'error',
            code: 'signing_stopped',
            message: 'signing is stopped: no certificate and no CRL is signed',
          },
          { severity: 'warning', code: 'notifications', message: '2 notifications could not be sent' },
        ])
        assert.deepEqual([stopped.signing.set_by, stopped.signing.reason], ['alice', 'exercise'])
      } finally {
        await admin.send('POST', '/signing', { stopped: false })
      }
    })

    test('counts certificates that expire, without the revoked ones', async () => {
      await sql(
        `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at)
         SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, decode(lpad(to_hex(256 + n), 4, '0'), 'hex'),
                '\\x07', '{old.test}', now(), now() + n * interval '5 days', '', CASE WHEN n = 2 THEN now() END
           FROM generate_series(1, 5) n`,
        [],
      )
      const { expiring } = await overview()
      const added = (days: number) =>
        expiring.find((one: { days: number }) => one.days === days).certificates -
        expiring.find((one: { days: number }) => one.days === 1).certificates
      assert.deepEqual([added(7), added(14), added(30)], [1, 1, 4])
    })
  })

  test('a CA besides the signer is among the issuers, and its end is an alarm', async () => {
    const [{ id, fingerprint } = { id: '', fingerprint: '' }] = await sql<{ id: string; fingerprint: string }>(
      `UPDATE certificates SET backend = 'partner' WHERE id = (SELECT max(id::text)::uuid FROM certificates)
       RETURNING id, encode(issuer_fingerprint, 'hex') AS fingerprint`,
    )
    await sql(
      `INSERT INTO csr_issuances (certificate_id, order_id, account_id, csr, spki_sha256, not_before, not_after, backend, failures, instance_id, due_at)
       VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '', '', now(), now(), 'down', 4, 0, now() + interval '1 day')`,
    )
    const seen = await until('it is seen', async () => {
      const found = await overview()
      return found.other_cas.length === 2 && found
    })
    assert.deepEqual(
      seen.other_cas.map(({ backend, issuer, open, failures }: Record<string, unknown>) => [
        backend,
        issuer,
        open,
        failures,
      ]),
      [
        ['partner', fingerprint, 0, 0],
        ['down', null, 1, 4],
      ],
    )
    assert.equal(seen.issuers.at(-1).id, 'partner')
    const listed = (await auditor.get('/issuers')).json
    assert.equal(listed.find((one: { fingerprint: string }) => one.fingerprint === fingerprint).backend, 'partner')
    await sql('UPDATE certificates SET backend = NULL WHERE id = $1', [id])
    await sql("DELETE FROM csr_issuances WHERE backend = 'down'")
  })

  test('issuers are listed with what they sign as, and their chain can be saved', async () => {
    const [issuer, ...others] = (await auditor.get('/issuers')).json
    assert.deepEqual([others.length, issuer.id], [0, 'default'])
    const { text } = await auditor.get(`/issuers/${issuer.fingerprint}/chain`)
    const chain =
      text.match(/-----BEGIN[\s\S]+?-----END CERTIFICATE-----/g)?.map((pem) => new X509Certificate(pem)) ?? []
    const [own, root] = chain as [X509Certificate, X509Certificate]
    assert.equal(own.fingerprint256.replaceAll(':', '').toLowerCase(), issuer.fingerprint)
    assert.deepEqual(issuer.not_after, new Date(own.validTo).toISOString())
    assert.ok(own.checkIssued(root))
    assert.equal(issuer.above.length, chain.length - 1)
    assert.equal(issuer.above[0].fingerprint, root.fingerprint256.replaceAll(':', '').toLowerCase())
    assert.equal((await auditor.get(`/issuers/${'ab'.repeat(32)}/chain`)).status, 404)
    assert.equal((await auditor.get('/issuers/ab/chain')).status, 404)
  })

  describe('settings', () => {
    let instance: AdminInstance
    let reader: AdminClient
    before(async () => {
      instance = await adminInstance(service, {
        smtp: { password: 'a password of the mail server' },
        audit_export: { webhook_url: 'http://127.0.0.1:9/audit?token=of-the-webhook' },
      })
      reader = clientWith(instance.baseUrl, auditor.token)
    })
    after(() => instance?.close())

    const settingOf = async (key: string) =>
      (await reader.get('/settings')).json.settings.find((one: { key: string }) => one.key === key)

    test('are shown with their source, and no secret leaves', async () => {
      const reply = await reader.get('/settings')
      assert.equal(reply.status, 200)
      for (const secret of [TOKEN_SECRET, 'a password of the mail server', 'of-the-webhook'])
        assert.ok(!reply.text.includes(secret), secret)
      const port = await settingOf('server.port')
      assert.deepEqual([port.value, port.source, port.reload, port.default], [service.port, 'file', 'restart', 8443])
      const secret = await settingOf('admin_api.token_secret')
      assert.deepEqual([secret.value, secret.secret, secret.source], ['(hidden)', true, 'file'])
      const size = await settingOf('notifications.batch_size')
      assert.deepEqual([size.source, size.reload], ['default', 'live'])
      assert.deepEqual(reply.json.file.changes, [])
      assert.equal(path.basename(reply.json.file.path), 'config.yaml')
    })

    test('say what a SIGHUP and what a restart would change', async () => {
      const file = path.join(instance.folder, 'config.yaml')
      const text = readFileSync(file, 'utf8')
      writeFileSync(file, text.replace('level: CRITICAL', 'level: WARNING\n  format: human'))
      const { changes } = (await reader.get('/settings')).json.file
      assert.deepEqual(changes, [
        { key: 'logging.level', by: 'SIGHUP', value: 'WARNING' },
        { key: 'logging.format', by: 'restart', value: 'human' },
      ])
      appendFileSync(file, '\nserver: 1\n')
      const broken = (await reader.get('/settings')).json.file
      assert.equal(broken.changes.length, 0)
      assert.match(broken.errors.join(), /server/)
    })
  })

  test('the failures of an account say what was wrong, and hold no token', async () => {
    const account = accountIdOf(client)
    await failHttp01(client, responder, 'fails.shop.test')
    const [failure] = await until('the failure is kept', async () => {
      const { json } = await auditor.get(`/accounts/${account}/failures`)
      return json.length > 0 && json
    })
    assert.equal(failure.kind, 'challenge.on_failure')
    assert.equal(failure.data.identifier_value, 'fails.shop.test')
    assert.match(failure.data.error, /\S/)
    assert.equal('token' in failure.data, false)
    assert.equal((await auditor.get(`/accounts/${NOBODY}/failures`)).status, 404)
    const counts = (await auditor.get('/events/counts?hours=2')).json
    assert.ok(
      counts.some(({ kind, events }: { kind: string; events: number }) => kind === failure.kind && events === 1),
    )
  })

  test('the cascade of a credential is counted before it is revoked', async () => {
    const { json } = await admin.get(`/eab/${credential.id}/cascade`)
    assert.deepEqual(json.account_ids, [accountIdOf(client)])
    assert.deepEqual([json.accounts, json.authorizations, json.certificates], [1, 3, 2])
    assert.equal((await admin.get(`/eab/${NOBODY}/cascade`)).status, 404)
  })

  test('the chain of the audit log is checked', async () => {
    const begun = await auditor.send('POST', '/audit-log/verifications')
    assert.deepEqual([begun.status, begun.json.status, begun.json.whole], [202, 'running', null])
    const place = new URL(begun.headers.get('location') ?? '').pathname.replace('/api', '')
    const json = await until('the check has ended', async () => {
      const reply = await auditor.get(place)
      return reply.json.status === 'running' ? undefined : reply.json
    })
    assert.deepEqual([json.status, json.whole, json.faults], ['done', true, []])
    assert.ok(json.entries > 0)
    assert.deepEqual([json.checked, json.total], [json.entries, json.entries])
    assert.match(json.head, /^\d+:[0-9a-f]{64}$/)
    assert.deepEqual((await auditor.get('/audit-log/verifications')).json[0], json)
    assert.equal((await auditor.get(`/audit-log/verifications/${NOBODY}`)).status, 404)
    const refused = await auditor.send('POST', '/audit-log/verifications', { heads: ['12:ab'] })
    assert.deepEqual([refused.status, refused.json.fields[0].field], [400, 'heads.0'])
  })

  test('a notification is shown with its body', async () => {
    const [first] = (await admin.get('/notifications')).json
    const { json } = await admin.get(`/notifications/${first.id}`)
    assert.equal(json.subject, first.subject)
    assert.equal(typeof json.body_text, 'string')
    assert.equal((await admin.get(`/notifications/${NOBODY}`)).status, 404)
  })

  describe('a profile that is not stored', () => {
    const check = async (body: object) => {
      const reply = await auditor.send('POST', '/csr-profiles/check', body)
      assert.equal(reply.status, 200, reply.text)
      return reply.json
    }

    test('is tried on the last certificates', async () => {
      const found = await check({
        profile_data: { san_maximum: 1, max_subdomain_depth: 2, depth_base_domains: ['test'] },
      })
      assert.deepEqual([found.checked, found.complete, found.refused, found.accounts], [2, true, 1, 1])
      const [example] = found.examples
      assert.deepEqual(example.san_values.toSorted(), ['shop.test', 'www.shop.test'])
      assert.equal(example.account_id, accountIdOf(client))
      assert.deepEqual(example.violations, ['2 subject alternative names; the maximum is 1'])
      assert.deepEqual(found.not_checked, [])
    })

    test('says what no certificate answers', async () => {
      const found = await check({
        profile_data: { subject_regex: 'O=x', authorized_key_usages: [], common_name_minimum: 1 },
      })
      assert.equal(found.refused, 0)
      assert.deepEqual(found.not_checked.map(({ field }: { field: string }) => field).toSorted(), [
        'authorized_key_usages',
        'common_name_minimum',
        'subject_regex',
      ])
    })

    test('in place of a stored one is tried on its accounts alone', async () => {
      const { id } = await made(admin, '/csr-profiles', { name: 'of the other', profile_data: {} })
      const other = await registeredClient(service.directoryUrl)
      assert.equal((await admin.send('PUT', `/csr-profiles/${id}/accounts/${accountIdOf(other)}`)).status, 204)
      const body = { profile_data: { san_maximum: 0 }, profile_id: id }
      assert.deepEqual((await check(body)).checked, 0)
      await other.obtain(['other.test'], responder)
      assert.deepEqual([(await check(body)).checked, (await check(body)).refused], [1, 1])
      assert.equal((await auditor.send('POST', '/csr-profiles/check', { ...body, profile_id: NOBODY })).status, 404)
    })

    test('is tried for one user while another asks for many trials', async () => {
      const body = { profile_data: { san_maximum: 1 } }
      const statuses: number[] = []
      const trial = async () => void statuses.push((await auditor.send('POST', '/csr-profiles/check', body)).status)
      const { flood, other } = await withQuery(service.database.connection, async (query) => {
        await query('BEGIN')
        await query('LOCK TABLE certificates IN ACCESS EXCLUSIVE MODE')
        const flood = Promise.all(Array.from({ length: 12 }, trial))
        await until('those that may not wait are refused', async () => statuses.length === 4)
        const other = admin.send('POST', '/csr-profiles/check', body)
        await query('COMMIT')
        return { flood, other }
      })
      assert.equal((await other).status, 200)
      await flood
      assert.deepEqual(statuses, [429, 429, 429, 429, ...new Array<number>(8).fill(200)])
    })

    test('with a wrong field is refused by name', async () => {
      const reply = await auditor.send('POST', '/csr-profiles/check', { profile_data: { san_regex: '(' } })
      assert.equal(reply.status, 400)
      assert.equal(reply.json.fields[0].field, 'profile_data.san_regex')
    })
  })
})
