/** Four eyes: what one administrator asks for, another one lets happen, once. */

import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import {
  type AdminClient,
  administrator,
  adminRequest,
  clientWith,
  createAdministrator,
  signIn,
} from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { made } from '../support/bound.ts'
import { type TestDatabase, untilWaiting } from '../support/database.ts'
import type { ReceivedMail } from '../support/mail-server.ts'
import { chancery } from '../support/operator.ts'
import { withQuery } from '../support/revoked.ts'
import { mailsOf, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const APPROVALS = { bulk_revocation_above: 2, resume_signing: true, user_changes: true, new_names: true }

describe('acts that need approval', () => {
  const { service, sql } = administered(() => sharedService('mails'))
  let mails: ReceivedMail[]
  let instance: AdminInstance
  let here: { baseUrl: string; database: TestDatabase }
  let alice: AdminClient
  let bob: AdminClient
  let carol: AdminClient
  before(async () => {
    mails = (await mailsOf()).mails
    instance = await adminInstance(service, { admin_api: { approvals: APPROVALS } })
    here = { baseUrl: instance.baseUrl, database: service.database }
    alice = await administrator(here, 'alice')
    bob = await administrator(here, 'bob')
    carol = await administrator(here, 'carol')
  })
  after(async () => {
    await instance?.close()
  })
  beforeEach(() => sql('DELETE FROM admin_approvals'))

  /** With a reason, as somebody sends it who knows that another person has to decide. */
  const ask = (client: AdminClient, method: string, path: string, body?: object, reason = 'a ticket says so') =>
    adminRequest(here.baseUrl, method, path, {
      token: client.token,
      headers: { 'approval-reason': encodeURIComponent(reason) },
      ...(body && { body }),
    })
  const asked = async (client: AdminClient, method: string, path: string, body?: object, reason?: string) => {
    const reply = await ask(client, method, path, body, reason)
    assert.equal(reply.status, 202, reply.text)
    assert.equal(reply.headers.get('location')?.endsWith(`/approvals/${reply.json.id}`), true)
    return reply.json
  }
  const tokenOf = (client: AdminClient) =>
    made<{ id: string; token: string }>(client, '/tokens', { name: 'machine', role: 'admin' })
  const decide = (client: AdminClient, what: string, { id }: { id: string }, body?: object) =>
    client.send('POST', `/approvals/${id}/${what}`, body)
  const statusOf = async ({ id }: { id: string }) => (await alice.get(`/approvals/${id}`)).json.status
  const isStopped = async () => (await alice.get('/signing')).json.signing_stopped
  const stopSigning = async () => assert.equal((await alice.send('POST', '/signing', { stopped: true })).status, 200)
  const toResume = async (client = alice) => {
    await stopSigning()
    return asked(client, 'POST', '/signing', { stopped: false })
  }
  const entries = (id: string) =>
    sql<{ action: string; username: string }>(
      `SELECT l.action, u.username FROM admin_audit_log l JOIN admin_users u ON u.id = l.user_id
        WHERE l.details ->> 'approval_id' = $1 ORDER BY l.sequence`,
      [id],
    )
  let serial = 0x2000_0000
  async function certificates(count: number): Promise<void> {
    for (let i = 0; i < count; i++)
      await sql(
        `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, issued_at)
         VALUES ($1, decode($2, 'hex'), '\\x01', '{a.test}', now(), now() + interval '1 day', '\\x00', now())`,
        [uuidv7(Date.now()), (++serial).toString(16)],
      )
  }
  const unrevoked = async () =>
    (await sql("SELECT FROM certificates WHERE names = '{a.test}' AND revoked_at IS NULL")).length

  test('without a reason the reply says that another person must approve, and nothing is kept', async () => {
    await stopSigning()
    const reply = await alice.send('POST', '/signing', { stopped: false })
    assert.deepEqual([reply.status, reply.json.error], [428, 'approval_needed'])
    assert.match(reply.json.message, /^another person must approve this: Resume signing$/)
    assert.deepEqual((await alice.get('/approvals')).json, [])
  })

  test('a number to confirm that is above what matches is refused, and asks nobody', async () => {
    await certificates(1)
    const filter = { domain: 'a.test' }
    const count = await unrevoked()
    const body = { filter, revoke: true, reason: 4, confirm_count: count + APPROVALS.bulk_revocation_above }
    const reply = await ask(alice, 'POST', '/incidents', body)
    assert.equal(reply.status, 400, reply.text)
    assert.match(reply.json.message, new RegExp(`'confirm_count' must be at most ${count}, `))
    assert.deepEqual((await alice.get('/approvals')).json, [])
    assert.equal(await unrevoked(), count)
  })

  test('an incident that revokes more than the number waits for another person, and then begins', async () => {
    await certificates(3)
    const filter = { domain: 'a.test' }
    const confirm_count = await unrevoked()
    const body = { filter, revoke: true, reason: 4, confirm_count }
    assert.equal((await alice.send('POST', '/incidents', body)).status, 428)
    const request = await asked(alice, 'POST', '/incidents', body)
    assert.deepEqual([await unrevoked(), (await alice.get('/incidents')).json], [confirm_count, []])
    assert.equal((await decide(bob, 'approve', request)).json.status, 'approved')
    await until('all are revoked', async () => (await unrevoked()) === 0)
    const [incident] = (await alice.get('/incidents')).json
    assert.deepEqual([incident.created_by, incident.certificates], ['alice', confirm_count])
  })

  test('signing resumes when another administrator approves, and the audit log names both', async () => {
    const request = await toResume()
    assert.equal(await isStopped(), true)
    assert.deepEqual((await bob.get('/approvals/count')).json, { for_others: 1, own: 0, results: 0 })
    const approved = await decide(bob, 'approve', request)
    assert.deepEqual([approved.status, approved.json.status, approved.json.decided_by], [200, 'approved', 'bob'])
    assert.equal(await isStopped(), false)
    assert.deepEqual(await entries(request.id), [
      { action: 'approval.request', username: 'alice' },
      { action: 'approval.approve', username: 'bob' },
      { action: 'signing.resume', username: 'alice' },
    ])
  })

  test('stopping signing asks nobody', stopSigning)

  test('nobody approves an own request: not by the same login, another one, or a token', async () => {
    const password = await createAdministrator(service.database, 'dora')
    const dora = await signIn(here.baseUrl, 'dora', password)
    const { token } = await tokenOf(dora)
    const machine = clientWith(here.baseUrl, token)
    const request = await toResume(machine)
    for (const client of [dora, await signIn(here.baseUrl, 'dora', password)]) {
      const reply = await decide(client, 'approve', request)
      assert.deepEqual([reply.status, /your own/.test(reply.text)], [409, true], reply.text)
    }
    for (const client of [machine, clientWith(here.baseUrl, (await tokenOf(bob)).token)])
      assert.equal((await decide(client, 'approve', request)).status, 403)
    assert.equal(await statusOf(request), 'waiting')
  })

  test('two users with one mail address are one person', async () => {
    const request = await toResume()
    await sql("UPDATE admin_users SET email = 'Alice@Example.com' WHERE username = 'carol'")
    assert.equal((await decide(carol, 'approve', request)).status, 409)
    await sql("UPDATE admin_users SET email = 'carol@example.com' WHERE username = 'carol'")
    assert.equal((await decide(carol, 'approve', request)).status, 200)
  })

  test('a mail address of one’s own needs approval: nobody becomes another person before a decision', async () => {
    const twin = await administrator(here, 'twin')
    await sql("UPDATE admin_users SET email = 'alice@example.com' WHERE username = 'twin'")
    const request = await toResume()
    const reply = await twin.send('PATCH', '/me', { email: 'twin@example.com' })
    assert.deepEqual([reply.status, reply.json.error], [428, 'approval_needed'], reply.text)
    assert.equal((await decide(twin, 'approve', request)).status, 409)
    const change = await asked(twin, 'PATCH', '/me', { email: 'twin@example.com' })
    assert.deepEqual(change.facts, [{ name: 'email', before: 'alice@example.com', after: 'twin@example.com' }])
    assert.equal((await decide(alice, 'approve', change)).status, 409)
    assert.equal((await decide(bob, 'approve', change)).status, 200)
    assert.equal((await twin.get('/me')).json.email, 'twin@example.com')
  })

  test('an auditor sees requests and decides none', async () => {
    const auditor = await administrator(here, 'audrey', 'auditor')
    const request = await toResume()
    assert.equal((await auditor.get('/approvals')).json[0].id, request.id)
    for (const what of ['approve', 'withdraw', 'collect'])
      assert.equal((await decide(auditor, what, request)).status, 403)
    assert.equal((await decide(auditor, 'reject', request, { reason: 'no' })).status, 403)
  })

  for (const role of ['auditor', 'registrar'] as const)
    test(`a request of the role ${role} is seen, withdrawn and decided`, async () => {
      const scope = role === 'registrar' ? ['team-a'] : []
      const maker = await administrator(here, `${role}-who-asks`, role, scope)
      const own = await asked(maker, 'PATCH', '/me', { email: `${role}@example.com` })
      assert.equal((await maker.get(`/approvals/${own.id}`)).json.status, 'waiting')
      assert.equal((await maker.get('/approvals/count')).json.own, 1)
      assert.equal((await decide(maker, 'collect', own)).status, 409)
      assert.equal((await decide(maker, 'withdraw', own)).json.status, 'withdrawn')
      const again = await asked(maker, 'PATCH', '/me', { email: `${role}@example.com` })
      assert.equal((await decide(maker, 'approve', again)).status, 403)
      assert.equal((await decide(bob, 'approve', again)).status, 200)
      assert.equal((await maker.get('/me')).json.email, `${role}@example.com`)
    })

  test('the requests of others are not there for a registrar', async () => {
    const registrar = await administrator(here, 'reader', 'registrar', ['team-a'])
    const request = await toResume()
    assert.deepEqual((await registrar.get('/approvals')).json, [])
    assert.deepEqual((await registrar.get('/approvals/count')).json, { for_others: 0, own: 0, results: 0 })
    assert.equal((await registrar.get(`/approvals/${request.id}`)).status, 404)
    for (const what of ['withdraw', 'collect']) assert.equal((await decide(registrar, what, request)).status, 404, what)
    assert.equal(await statusOf(request), 'waiting')
  })

  test('of two who approve at once one wins, and the act happens once', async () => {
    const request = await toResume()
    const replies = await withQuery(service.database.connection, async (query) => {
      await query('BEGIN')
      await query('SELECT FROM admin_approvals WHERE id = $1 FOR UPDATE', [request.id])
      const both = Promise.all([decide(bob, 'approve', request), decide(carol, 'approve', request)])
      await untilWaiting(service.database, 2)
      await query('COMMIT')
      return both
    })
    assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 409])
    const actions = (await entries(request.id)).map(({ action }) => action)
    assert.deepEqual(actions, ['approval.request', 'approval.approve', 'signing.resume'])
  })

  test('a decided request cannot be decided again', async () => {
    const request = await toResume()
    const rejected = await decide(bob, 'reject', request, { reason: 'the key is still missing' })
    assert.deepEqual([rejected.json.status, rejected.json.decision_reason], ['rejected', 'the key is still missing'])
    assert.equal(await isStopped(), true)
    assert.equal((await decide(bob, 'approve', request)).status, 409)
    assert.equal((await decide(alice, 'withdraw', request)).status, 409)
    const again = await toResume()
    await decide(bob, 'approve', again)
    await stopSigning()
    assert.equal((await decide(carol, 'approve', again)).status, 409)
    assert.equal(await isStopped(), true)
  })

  test('who asked may withdraw, and nobody else', async () => {
    const request = await toResume()
    assert.equal((await decide(bob, 'withdraw', request)).status, 403)
    assert.equal((await decide(alice, 'withdraw', request)).json.status, 'withdrawn')
    assert.equal((await decide(bob, 'approve', request)).status, 409)
  })

  test('a request expires', async () => {
    const request = await toResume()
    await sql("UPDATE admin_approvals SET expires_at = now() - interval '1 second'")
    assert.equal(await statusOf(request), 'expired')
    const reply = await decide(bob, 'approve', request)
    assert.deepEqual([reply.status, /expired/.test(reply.text)], [409, true])
    assert.deepEqual((await bob.get('/approvals?waiting=true')).json, [])
    assert.equal((await bob.get('/approvals?waiting=false')).json.length, 1)
  })

  test('who was disabled or lost the role in between gets nothing', async () => {
    const erin = await administrator(here, 'erin')
    for (const change of ['enabled = false', "role = 'auditor', enabled = true"]) {
      await sql("UPDATE admin_users SET enabled = true, role = 'admin' WHERE username = 'erin'")
      const request = await toResume(erin)
      await sql(`UPDATE admin_users SET ${change} WHERE username = 'erin'`)
      const reply = await decide(bob, 'approve', request)
      assert.deepEqual([reply.status, /may no longer/.test(reply.text)], [409, true], reply.text)
      assert.deepEqual([await statusOf(request), await isStopped()], ['waiting', true])
    }
  })

  test('a revoked API token gets nothing', async () => {
    const { id, token } = await tokenOf(alice)
    const request = await toResume(clientWith(here.baseUrl, token))
    await alice.send('DELETE', `/tokens/${id}`)
    assert.equal((await decide(bob, 'approve', request)).status, 409)
  })

  test('one user may have twenty requests that wait', async () => {
    await stopSigning()
    for (let i = 0; i < 20; i++) await asked(alice, 'POST', '/signing', { stopped: false })
    const reply = await ask(alice, 'POST', '/signing', { stopped: false })
    assert.deepEqual([reply.status, /20 requests/.test(reply.text)], [409, true])
    await asked(carol, 'POST', '/signing', { stopped: false })
  })

  test('a reason is a line of text in any language', async () => {
    await stopSigning()
    assert.equal(
      (await asked(alice, 'POST', '/signing', { stopped: false }, 'Schlüssel geprüft')).reason,
      'Schlüssel geprüft',
    )
    for (const reason of ['x'.repeat(501), 'two\nlines'])
      assert.equal((await ask(alice, 'POST', '/signing', { stopped: false }, reason)).status, 400, reason)
  })

  describe('bulk revocation', () => {
    beforeEach(() => sql('DELETE FROM certificates'))
    const body = { filter: { domain: 'a.test' }, reason: 4 }

    test('up to the number one person is enough, and the job revokes no more', async () => {
      await certificates(2)
      const reply = await alice.send('POST', '/certificates/bulk-revoke', { ...body, wait: false })
      assert.equal(reply.status, 202, reply.text)
      assert.equal(reply.json.at_most, 2)
    })

    test('above it another person approves the number, which may shrink', async () => {
      await certificates(4)
      const request = await asked(alice, 'POST', '/certificates/bulk-revoke', body)
      assert.deepEqual([request.summary, request.most], ['Revoke 4 certificates', 4])
      assert.equal(await unrevoked(), 4)
      await sql('UPDATE certificates SET revoked_at = now() WHERE id = (SELECT min(id::text)::uuid FROM certificates)')
      assert.equal((await decide(bob, 'approve', request)).status, 200)
      await until('all are revoked', async () => (await unrevoked()) === 0)
    })

    test('when more match by then nothing is revoked', async () => {
      await certificates(3)
      const request = await asked(alice, 'POST', '/certificates/bulk-revoke', body)
      await certificates(1)
      const reply = await decide(bob, 'approve', request)
      assert.deepEqual([reply.status, /4 certificates match now; the request is for 3/.test(reply.text)], [409, true])
      assert.deepEqual([await unrevoked(), await statusOf(request)], [4, 'waiting'])
    })

    test('of a list of serial numbers the other person sees each one', async () => {
      await certificates(101)
      const rows = await sql<{ serial: string }>("SELECT encode(serial_number, 'hex') AS serial FROM certificates")
      const serial_numbers = rows.map(({ serial }) => serial)
      const request = await asked(alice, 'POST', '/certificates/bulk-revoke', { filter: { serial_numbers }, reason: 4 })
      const after = (of: string) => request.facts.find(({ name }: { name: string }) => name.startsWith(of)).after
      assert.match(after('serial_numbers'), / and 1 more$/)
      assert.match(after('of '), /^\d+ certificates: .* …$/)
      const { json } = await bob.get(`/approvals/${request.id}/request`)
      assert.deepEqual([json.operation, json.params, json.query], ['bulkRevoke', {}, ''])
      assert.deepEqual(json.body, { filter: { serial_numbers }, reason: 4 })
      assert.equal((await bob.get(`/approvals/${uuidv7(Date.now())}/request`)).status, 404)
    })

    test('a dry run asks nobody', async () => {
      await certificates(5)
      const reply = await alice.send('POST', '/certificates/bulk-revoke', { ...body, dry_run: true })
      assert.equal(reply.json.matching_certificates, 5)
    })
  })

  describe('users', () => {
    test('of the password of a new user each of the two gets a half, once, and it rests sealed', async () => {
      const body = { username: 'frank', email: 'frank@example.com', role: 'admin' }
      const request = await asked(alice, 'POST', '/users', body)
      assert.equal(request.summary, 'Create the admin frank')
      const approved = await decide(bob, 'approve', request)
      assert.deepEqual([approved.status, approved.json.has_result], [200, true])
      const { password_second_half: second } = approved.json
      assert.equal((await bob.get(`/approvals/${request.id}`)).text.includes(second), false)
      assert.equal((await decide(bob, 'collect', request)).status, 403)
      const { token } = await tokenOf(alice)
      assert.equal((await decide(clientWith(here.baseUrl, token), 'collect', request)).status, 403)
      const collected = await decide(alice, 'collect', request)
      assert.equal(collected.json.operation, 'createUser')
      const { password, password_first_half: first } = collected.json.reply
      assert.deepEqual([password, first.length, second.length], [undefined, 10, 10])
      const tried = { username: 'frank', password: first }
      assert.equal((await adminRequest(here.baseUrl, 'POST', '/auth/login', { body: tried })).status, 401)
      await signIn(here.baseUrl, 'frank', first + second)
      assert.equal((await decide(alice, 'collect', request)).status, 409)
      const rows = await sql<{ text: string }>(
        "SELECT (SELECT string_agg(a::text, '') FROM admin_approvals a) || (SELECT string_agg(l::text, '') FROM admin_audit_log l) AS text",
      )
      for (const half of [first, second]) assert.equal(rows[0]?.text.includes(half), false)
    })

    test('a reply is gone once the request has expired, and for a maker who may no longer do this', async () => {
      const request = await asked(alice, 'POST', '/users', { username: 'henry', email: 'henry@example.com' })
      assert.equal((await decide(bob, 'approve', request)).status, 200)
      await sql("UPDATE admin_users SET role = 'operator' WHERE username = 'alice'")
      const demoted = await decide(alice, 'collect', request)
      await sql("UPDATE admin_users SET role = 'admin' WHERE username = 'alice'")
      assert.equal(demoted.status, 403)
      await sql("UPDATE admin_approvals SET expires_at = now() - interval '1 second'")
      assert.equal((await decide(alice, 'collect', request)).status, 409)
      assert.equal((await alice.get(`/approvals/${request.id}`)).json.has_result, false)
      assert.equal((await alice.get('/approvals/count')).json.results, 0)
    })

    test('a change of role shows what it was and what it would be', async () => {
      const { id } = (await alice.get('/users?username=carol')).json[0]
      const request = await asked(alice, 'PATCH', `/users/${id}`, { role: 'auditor' })
      assert.deepEqual(request.facts, [{ name: 'role', before: 'admin', after: 'auditor' }])
      assert.equal((await decide(bob, 'approve', request)).status, 200)
      assert.equal((await alice.get(`/users/${id}`)).json.role, 'auditor')
      await sql("UPDATE admin_users SET role = 'admin' WHERE username = 'carol'")
    })

    test('what changed since it was asked for is not approved: a name, a role, a name that was granted', async () => {
      await createAdministrator(service.database, 'hugo', 'auditor')
      const { id } = (await alice.get('/users?username=hugo')).json[0]
      const change = ['PATCH', `/users/${id}`, { role: 'operator' }] as const
      const refused = async (request: { id: string }, now: RegExp) => {
        const reply = await decide(bob, 'approve', request)
        assert.deepEqual([reply.status, now.test(reply.json.message)], [409, true], reply.text)
        assert.equal(await statusOf(request), 'waiting')
      }
      const renamed = await asked(alice, ...change)
      const gone = await asked(alice, 'DELETE', `/users/${id}`)
      await sql("UPDATE admin_users SET username = 'victor' WHERE id = $1", [id])
      await refused(renamed, /no longer what was asked for; it would now be: Change the user victor/)
      await refused(gone, /Delete the user victor/)
      const promoted = await asked(alice, ...change)
      await sql("UPDATE admin_users SET role = 'registrar', scope = '{a}' WHERE id = $1", [id])
      await refused(promoted, /Change the user victor/)
      assert.equal((await alice.get(`/users/${id}`)).json.role, 'registrar')
      const granted = { kid: 'first', allowed_identifiers: ['lost.test'] }
      await decide(bob, 'approve', await asked(alice, 'POST', '/eab', granted))
      const wanted = { kid: 'grown', allowed_identifiers: ['fresh.test', 'lost.test'] }
      const names = await asked(alice, 'POST', '/eab', wanted)
      assert.deepEqual(names.facts[0].after, 'fresh.test')
      const [identifier] = (await alice.get('/allowed-identifiers?value=lost.test')).json
      await alice.send('DELETE', `/allowed-identifiers/${identifier.id}`)
      await refused(names, /Grant 2 new names/)
    })

    test('a user who was made meanwhile is a conflict, and the request still waits', async () => {
      const request = await asked(alice, 'POST', '/users', { username: 'grace', email: 'g@example.com' })
      await createAdministrator(service.database, 'grace')
      assert.equal((await decide(bob, 'approve', request)).status, 409)
      assert.equal(await statusOf(request), 'waiting')
      assert.equal((await decide(bob, 'reject', request, { reason: 'exists' })).status, 200)
    })

    test('of a reset password each of the two gets a half, and the user hears of both', async () => {
      const password = await createAdministrator(service.database, 'ruth')
      const ruth = await signIn(here.baseUrl, 'ruth', password)
      const { id } = (await ruth.get('/me')).json
      const request = await asked(alice, 'POST', `/users/${id}/reset-password`)
      const { password_second_half: second } = (await decide(bob, 'approve', request)).json
      assert.equal((await ruth.get('/me')).status, 401)
      const { reply } = (await decide(alice, 'collect', request)).json
      await signIn(here.baseUrl, 'ruth', reply.password_first_half + second)
      await until('ruth has a mail', () =>
        mails.some(({ to, text }) => to.includes('ruth@example.com') && text.includes('alice, approved by bob')),
      )
    })

    test('a new password and a deletion need approval, one’s own new password does not', async () => {
      const { id } = (await alice.get('/users?username=grace')).json[0]
      await asked(alice, 'POST', `/users/${id}/reset-password`)
      await asked(alice, 'DELETE', `/users/${id}`)
      const wrong = await alice.send('POST', '/me/reset-password', { current_password: 'wrong' })
      assert.equal(wrong.status, 403)
    })
  })

  test('a name that nobody was granted needs approval, by credential or account; a known one does not', async () => {
    const request = await asked(alice, 'POST', '/eab', { kid: 'team-a', allowed_identifiers: ['new.test'] })
    assert.equal(request.summary, 'Grant 1 new name to the credential team-a')
    assert.equal((await decide(bob, 'approve', request)).status, 200)
    const { reply } = (await decide(alice, 'collect', request)).json
    assert.match(reply.hmac_key, /^[\w-]{43}$/)
    await made(alice, '/eab', { kid: 'team-b', allowed_identifiers: ['new.test'] })
    await made(alice, '/eab', { kid: 'team-c' })
    const path = `/eab/${reply.id}/allowed-identifiers`
    await asked(alice, 'POST', path, { allow: ['new.test', 'newer.test'] })
    assert.equal((await alice.send('POST', path, { allow: ['new.test'] })).status, 200)
    const { id } = await made(alice, '/allowed-identifiers', { type: 'dns', value: 'newest.test' })
    await asked(alice, 'PUT', `${path}/${id}`)
    await asked(alice, 'PUT', `/allowed-identifiers/${id}/accounts/${reply.id}`)
  })

  test('what needs no challenge needs approval, also for names that were granted before', async () => {
    await made(alice, '/eab', { kid: 'bare' })
    const names = await asked(alice, 'POST', '/eab', { kid: 'old', allowed_identifiers: ['known.test'] })
    await decide(bob, 'approve', names)
    const wanted = { allowed_identifiers: ['known.test'], preapproved_networks: ['10.1.0.0/16'] }
    const request = await asked(alice, 'POST', '/eab', { kid: 'lab', ...wanted })
    assert.equal(request.summary, 'Grant 1 name without a challenge to the credential lab')
    assert.deepEqual(
      request.facts.map(({ name, after }: { name: string; after: string }) => [name, after]),
      [
        ['names', 'known.test'],
        ['networks that need no challenge', '10.1.0.0/16'],
      ],
    )
    await asked(alice, 'POST', '/eab', { kid: 'lab', preapproved_networks: ['10.1.0.0/16'] })
    assert.equal((await decide(bob, 'approve', request)).status, 200)
    const { reply } = (await decide(alice, 'collect', request)).json
    const path = `/eab/${reply.id}/allowed-identifiers`
    await asked(alice, 'POST', path, { allow: ['known.test'] })
    const [identifier] = (await alice.get('/allowed-identifiers?value=known.test')).json
    await asked(alice, 'PUT', `${path}/${identifier.id}`)
    assert.equal((await alice.send('POST', path, { disallow: ['known.test'] })).status, 200)
    const onHost = await chancery(
      instance,
      'eab',
      'create',
      'host',
      '--allow',
      'known.test',
      '--preapprove',
      '10.1.0.0/16',
    )
    assert.match(onHost.stderr, /another person must approve this: Grant 1 name without a challenge/)
  })

  test('whoever approves sees each new name; more than can be shown are refused', async () => {
    const names = (count: number) => Array.from({ length: count }, (_, at) => `n${at}.many.test`)
    const { id } = await made(alice, '/eab', { kid: 'team-many' })
    const path = `/eab/${id}/allowed-identifiers`
    const request = await asked(alice, 'POST', path, { allow: names(100) })
    assert.equal(request.facts[0].after, names(100).join(', '))
    const reply = await ask(alice, 'POST', path, { allow: names(101) })
    assert.deepEqual([reply.status, /at most 100 new names/.test(reply.text)], [400, true], reply.text)
  })

  test('the command line of the host refuses, and does it loudly in an emergency', async () => {
    await stopSigning()
    const refused = await chancery(instance, 'signing', 'resume')
    assert.deepEqual([refused.code, /another person must approve this/.test(refused.stderr)], [1, true], refused.stderr)
    assert.equal(await isStopped(), true)
    const done = await chancery(instance, 'signing', 'resume', '--emergency', 'bob and carol cannot be reached')
    assert.equal(done.code, 0, done.stderr)
    assert.equal(await isStopped(), false)
    const [entry] = (await alice.get('/audit-log?action=approval.emergency')).json
    assert.equal(entry.details.reason, 'bob and carol cannot be reached')
    const heard = () =>
      mails
        .filter(({ text }) => text.replaceAll(/=?\r\n ?/g, ' ').includes('without the approval'))
        .flatMap(({ to }) => to)
    await until('all administrators have a mail', () =>
      ['alice', 'bob', 'carol'].every((name) => heard().includes(`${name}@example.com`)),
    )
    await service.untilLogged('the emergency', ({ message }) => /an act without the approval/.test(String(message)))
    const { alarms } = (await clientWith(service.baseUrl, alice.token).get('/overview')).json
    assert.ok(alarms.some(({ code }: { code: string }) => code === 'emergency'))
  })
})

describe('without admin_api.approvals', () => {
  const { service, sql, as } = administered(() => sharedService('mails'))
  const admin = as('alice')

  test('one person is enough', async () => {
    await made(admin, '/users', { username: 'new', email: 'new@example.com' })
    await made(admin, '/eab', { kid: 'team', allowed_identifiers: ['new.test'] })
    for (const stopped of [true, false]) assert.equal((await admin.send('POST', '/signing', { stopped })).status, 200)
  })

  test('what needs no challenge wants a session and a recent sign-in, has a bound, and all administrators hear of it', async () => {
    const { mails } = await mailsOf()
    const olga = await administrator(service, 'olga.lab')
    const { token } = await made<{ token: string }>(olga, '/tokens', { name: 'machine', role: 'admin' })
    const machine = clientWith(service.baseUrl, token)
    const wanted = { allowed_identifiers: ['a.lab.test'], preapproved_networks: ['10.0.0.0/8', '2001:db8::/32'] }
    const { id } = await made(olga, '/eab', { kid: 'lab', ...wanted })
    const { id: other } = await made(olga, '/allowed-identifiers', { type: 'dns', value: 'other.lab.test' })
    const acts = (client: AdminClient) => [
      () => client.send('POST', '/eab', { kid: 'more', ...wanted }),
      () => client.send('POST', `/eab/${id}/allowed-identifiers`, { allow: ['b.lab.test'] }),
      () => client.send('PUT', `/eab/${id}/allowed-identifiers/${other}`),
    ]
    for (const act of acts(machine)) {
      const reply = await act()
      assert.deepEqual([reply.status, /needs a login/.test(reply.text)], [403, true], reply.text)
    }
    await made(machine, '/eab', { kid: 'plain', allowed_identifiers: ['a.lab.test'] })
    await sql("UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    for (const act of acts(olga)) assert.equal((await act()).json.error, 'sign_in_again')
    assert.equal((await olga.send('POST', `/eab/${id}/allowed-identifiers`, { disallow: ['a.lab.test'] })).status, 200)
    const heard = () =>
      mails.filter(({ text }) => text.replaceAll(/=?\r\n ?/g, ' ').includes('a.lab.test')).flatMap(({ to }) => to)
    await until('all administrators have a mail', () =>
      ['alice', 'olga.lab'].every((name) => heard().includes(`${name}@example.com`)),
    )
  })

  test('the gravest acts want a recent sign-in, which a password renews', async () => {
    const password = await createAdministrator(service.database, 'olga')
    const olga = await signIn(service.baseUrl, 'olga', password)
    const resume = () => olga.send('POST', '/signing', { stopped: false })
    assert.equal((await resume()).status, 200)
    await sql("UPDATE admin_sessions SET authenticated_at = now() - interval '901 seconds'")
    const refused = await resume()
    assert.deepEqual([refused.status, refused.json.error], [403, 'sign_in_again'])
    assert.equal((await olga.send('POST', '/signing', { stopped: true })).status, 200)
    assert.equal((await olga.send('POST', '/auth/confirm', { password: 'wrong' })).status, 403)
    assert.equal((await resume()).status, 403)
    assert.equal((await olga.send('POST', '/auth/confirm', { password })).status, 200)
    assert.equal((await resume()).status, 200)
  })
})
