/** Mail as administrators see it, against a real SMTP server that takes some and refuses others. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { Authenticator } from '../../bench/client/authenticator.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { createAdministrator, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import type { ReceivedMail } from '../support/mail-server.ts'
import { CONSOLE_ORIGIN, mailsOf, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

describe('mail', () => {
  const { service, sql, as } = administered(() => sharedService('mails'))
  const admin = as('alice')
  let mails: ReceivedMail[]
  let refuse: (sentence: string | undefined) => void
  before(async () => {
    const server = await mailsOf()
    mails = server.mails
    refuse = server.refuse
  })

  const failed = (recipient: string, error: string) =>
    sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, error_detail, message_id)
       VALUES ($1, 'expiration_warning', $2, 's', 't', 'h', 'failed', $3, '<m@corp.example>')`,
      [uuidv7(Date.now()), recipient, error],
    )

  test('where no mail is known, the overview says that it does not know', async () => {
    // The mail about alice goes out by itself, before or behind the first question.
    await until(
      'the mail about alice',
      async () => (await sql("DELETE FROM notifications WHERE status = 'sent' RETURNING id")).length > 0,
    )
    await sql('DELETE FROM mail_attempts')
    const { notifications } = (await admin.get('/overview')).json
    assert.deepEqual([notifications.last_sent_at, notifications.last_failure], [null, null])
  })

  test('a test mail goes to the caller alone, and says that the server has taken it', async () => {
    const { email } = (await admin.get('/me')).json
    assert.deepEqual((await admin.send('POST', '/notifications/test')).json, {
      recipient: email,
      status: 'sent',
      error: null,
    })
    assert.deepEqual(mails.at(-1)?.to, [email])
    await until(
      'the overview knows',
      async () => (await admin.get('/overview')).json.notifications.last_sent_at !== null,
    )
  })

  test('a test mail that is refused says what the server said', async () => {
    refuse('no such mailbox here')
    const { status, error } = (await admin.send('POST', '/notifications/test')).json
    assert.equal(status, 'failed')
    assert.match(error, /no such mailbox here/)
    refuse(undefined)
    const { last_failure } = (await admin.get('/overview')).json.notifications
    assert.match(last_failure.error, /no such mailbox here/)
  })

  test('mail is failing when an old mail was tried last, in vain, until one has gone out', async () => {
    const notificationsOf = async () => (await admin.get('/overview')).json.notifications
    await admin.send('POST', '/notifications/test')
    await until('mail is well', async () => (await notificationsOf()).failing_since === null)
    const [{ id } = { id: '' }] = await sql<{ id: string }>(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, created_at, message_id)
       VALUES ($1, 'expiration_warning', 'old@corp.example', 's', 't', 'h', 'failed', now() - interval '9 days', '<o@corp.example>')
       RETURNING id`,
      [uuidv7(Date.now() - 9 * 86_400_000)],
    )
    refuse('the disk is full')
    await admin.send('POST', '/notifications/retry', { ids: [id] })
    const failing = await until('it is failing', async () => {
      const found = await notificationsOf()
      return found.failing_since !== null && found
    })
    refuse(undefined)
    assert.match(failing.last_failure.error, /the disk is full/)
    assert.ok(failing.failing_since > failing.last_sent_at)
    const { alarms } = (await admin.get('/overview')).json
    assert.match(alarms.find(({ code }: { code: string }) => code === 'mail').message, /since .*the disk is full/)
    await admin.send('POST', '/notifications/test')
    await until('it is well again', async () => (await notificationsOf()).failing_since === null)
    await sql('DELETE FROM notifications WHERE id = $1', [id])
  })

  describe('a user is told', () => {
    /** Subject, recipients and sentence of the mails about a user, without the breaks of their transfer. */
    const about = (username: string) =>
      mails
        .map(({ to, text }) => ({ to, text: text.replaceAll('=\r\n', '').replaceAll(/\r\n/g, ' ') }))
        .filter(({ text }) => text.includes(`Administrator changed: ${username}`))
    const told = (username: string, to: string, sentence: RegExp) =>
      until(`${to} is told: ${sentence}`, () =>
        about(username).some((mail) => mail.to.includes(to) && sentence.test(mail.text)),
      )

    test('of another mail address: at the old one and at the new one', async () => {
      const { id, email } = (await admin.get('/me')).json
      await admin.send('PATCH', '/me', { email: 'alice@elsewhere.example' })
      for (const address of [email, 'alice@elsewhere.example'])
        await told('alice', address, /from alice@example\.com to alice@elsewhere\.example/)
      await admin.send('PATCH', `/users/${id}`, { email })
      for (const address of [email, 'alice@elsewhere.example'])
        await told('alice', address, /from alice@elsewhere\.example to alice@example\.com/)
    })

    test('of a passkey that was added, and of one that was removed', async () => {
      const passkeys = '/me/passkeys'
      const wanted = (await admin.send('POST', `${passkeys}/options`)).json
      const credential = new Authenticator(CONSOLE_ORIGIN).create(wanted)
      const { json } = await admin.send('POST', passkeys, { name: '<b>blue</b> key', credential })
      await told('alice', 'alice@example.com', /The passkey <b>blue<\/b> key was added\./)
      await told('alice', 'alice@example.com', /The passkey &lt;b&gt;blue&lt;\/b&gt; key was added\./)
      assert.equal((await admin.send('DELETE', `${passkeys}/${json.id}`)).status, 204)
      await told('alice', 'alice@example.com', /key was removed\./)
    })

    test('of a password of one’s own choice, and not of another role', async () => {
      const password = await createAdministrator(service.database, 'bob')
      const bob = await signIn(service.baseUrl, 'bob', password)
      await admin.send('PATCH', `/users/${(await bob.get('/me')).json.id}`, { role: 'operator' })
      const body = { current_password: password, new_password: 'vacant orchid tram 61' }
      assert.equal((await bob.send('POST', '/me/password', body)).status, 200)
      await told('bob', 'bob@example.com', /The password was changed\./)
      assert.equal(about('bob').length, 1)
    })
  })

  test('failed mails are grouped by their error without the addresses, and one group or a choice is sent again', async () => {
    await sql('DELETE FROM notifications', [])
    for (const name of ['ann', 'ben', 'eve'])
      await failed(`${name}@corp.example`, `550 <${name}@corp.example>: unknown`)
    await failed('ann@corp.example', '451 come back later')
    const causes: Record<string, unknown>[] = (await admin.get('/notifications/causes')).json
    assert.deepEqual(each(causes, 'cause', 'notifications', 'recipients'), [
      ['550 …: unknown', 3, 3],
      ['451 come back later', 1, 1],
    ])
    const group = { notification_type: 'expiration_warning', cause: '550 …: unknown' }
    const listed = (await admin.get(`/notifications?status=failed&${new URLSearchParams(group)}`)).json
    assert.equal(listed.length, 3)
    const retry = async (body: object) => (await admin.send('POST', '/notifications/retry', body)).json
    assert.deepEqual(await retry({ ids: [listed[0].id] }), { retried: 1 })
    assert.deepEqual(await retry(group), { retried: 2 })
    await until('all three have come', async () => mails.filter(({ text }) => text.includes('Subject: s')).length === 3)
    assert.equal((await admin.send('POST', '/notifications/retry', { cause: 'x' })).status, 400)
    assert.deepEqual(await retry({}), { retried: 1 })
  })
})
