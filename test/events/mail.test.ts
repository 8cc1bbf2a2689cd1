/** Mail over SMTP, against a real server: TLS, refusals, and every way a server can go away. */

import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, afterEach, before, describe, test } from 'node:test'
import type { SMTPServerOptions } from 'smtp-server'
import { z } from 'zod/v4'
import { Mailer, retryDelay } from '../../src/events/notifications/mailer.ts'
import type { MailSettings } from '../../src/events/notifications/transport.ts'
import { MailError, MailProbe, MailTransport } from '../../src/events/notifications/transport.ts'
import type { NotificationSettings } from '../../src/settings/event-settings.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { insertNotifications, markFailed } from '../../src/store/notification-store.ts'
import { type DatabasePool, openCheckedDatabase, rowsOf } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { type MailServer, startMailServer } from '../support/mail-server.ts'
import { until } from '../support/until.ts'

const mail = {
  recipient: 'ops@example.com',
  subject: 'A subject',
  text: 'The text.',
  html: '<p>The text.</p>',
  messageId: '<1@acme.example.com>',
}

function settings(port: number, over: Partial<MailSettings> = {}): MailSettings {
  return {
    host: '127.0.0.1',
    port,
    tls: 'none',
    ca: undefined,
    login: undefined,
    cc: [],
    bcc: [],
    timeoutMs: 60_000,
    from: 'Certificates <acme@example.com>',
    serverUrl: 'https://acme.example.com',
    ...over,
  }
}

const refusal = (code: number, text: string) => Object.assign(new Error(text), { responseCode: code })

/** They end with each test. */
const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})
async function server(options: SMTPServerOptions = {}): Promise<MailServer> {
  const made = await startMailServer(options)
  open.push(made)
  return made
}

describe('one mail', () => {
  function transport(port: number, over: Partial<MailSettings> = {}): MailTransport {
    const made = new MailTransport(settings(port, over))
    open.unshift(made)
    return made
  }
  const trouble = (work: Promise<void>) =>
    work.then(
      () => assert.fail('the mail was sent'),
      (error) => {
        assert.ok(error instanceof MailError, String(error))
        return error
      },
    )

  test('has both bodies, a stable Message-ID, List-Id and Auto-Submitted; bcc is in the envelope only', async () => {
    const { port, mails } = await server()
    await transport(port, { cc: ['pki@example.com'], bcc: ['archive@example.com'] }).send(mail)
    const [received] = mails
    assert.equal(received?.from, 'acme@example.com')
    assert.deepEqual(received?.to, ['ops@example.com', 'pki@example.com', 'archive@example.com'])
    const { text = '' } = received ?? {}
    assert.match(text, /^Message-ID: <1@acme\.example\.com>\r$/m)
    assert.match(text, /^List-Id: <notifications\.acme\.example\.com>\r$/im)
    assert.match(text, /^Auto-Submitted: auto-generated\r$/m)
    assert.match(text, /^Cc: pki@example\.com\r$/m)
    assert.match(
      text,
      /Content-Type: text\/plain[\s\S]*The text\.[\s\S]*Content-Type: text\/html[\s\S]*<p>The text\.<\/p>/,
    )
    assert.doesNotMatch(text, /archive@example\.com/)
  })

  test('goes over STARTTLS or TLS to a server whose certificate is trusted, and to no other', async () => {
    // smtp-server comes with a self-signed certificate for localhost.
    const starttls = await server({ disabledCommands: [] })
    const implicit = await server({ secure: true, disabledCommands: [] })
    for (const [{ port }, tls] of [
      [starttls, 'starttls'],
      [implicit, 'implicit'],
    ] as const) {
      const error = await trouble(transport(port, { tls }).send(mail))
      assert.equal(error.trouble, 'server')
      assert.match(error.message, /certificate/)
    }
    assert.equal(starttls.mails.length + implicit.mails.length, 0)
  })

  test('never goes in the clear when STARTTLS is required', async () => {
    const { port, mails } = await server()
    assert.equal((await trouble(transport(port, { tls: 'starttls' }).send(mail))).trouble, 'server')
    assert.equal(mails.length, 0)
  })

  test('a login that is refused concerns the server, not the mail, and names no password', async () => {
    const { port } = await server({
      authOptional: false,
      disabledCommands: ['STARTTLS'],
      allowInsecureAuth: true,
      onAuth: (auth, _session, done) =>
        auth.password === 'right' ? done(null, { user: 'acme' }) : done(refusal(535, 'wrong')),
    })
    const error = await trouble(transport(port, { login: { user: 'acme', pass: 'hunter2' } }).send(mail))
    assert.equal(error.trouble, 'server')
    assert.doesNotMatch(error.message, /hunter2/)
    await transport(port, { login: { user: 'acme', pass: 'right' } }).send(mail)
  })

  test('5yz is for good, 4yz is not', async () => {
    for (const [code, expected] of [
      [550, 'permanent'],
      [501, 'permanent'],
      [451, 'temporary'],
    ] as const) {
      const { port } = await server({ onRcptTo: (_address, _session, done) => done(refusal(code, 'not today')) })
      const error = await trouble(transport(port).send(mail))
      assert.equal(error.trouble, expected)
      assert.match(error.message, /not today/)
    }
  })

  test('a recipient who is refused is an error, even when the copies are taken', async () => {
    const { port } = await server({
      onRcptTo: ({ address }, _session, done) =>
        address === 'ops@example.com' ? done(refusal(550, 'unknown user')) : done(),
    })
    const error = await trouble(transport(port, { bcc: ['archive@example.com'] }).send(mail))
    assert.equal(error.trouble, 'permanent')
  })

  test('is probed once in a while, however often health is asked, and anew when the server is back', async () => {
    let connections = 0
    const { port, close } = await server({
      onConnect(_session, done) {
        connections++
        done()
      },
    })
    const probe = new MailProbe(transport(port), 60_000)
    assert.deepEqual(await Promise.all([probe.status(), probe.status()]), ['ok', 'ok'])
    assert.equal(await probe.status(), 'ok')
    assert.equal(connections, 1)
    const impatient = new MailProbe(transport(port), 0)
    await close()
    assert.equal(await impatient.status(), 'error')
    open.splice(
      open.findIndex((one) => 'port' in one && one.port === port),
      1,
    )
  })

  /** A server that behaves worse than a library would. */
  async function rawServer(onConnection: (socket: Socket) => void): Promise<number> {
    const sockets = new Set<Socket>()
    const raw = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket)
      socket.on('error', () => undefined)
      onConnection(socket)
    })
    await new Promise<void>((resolve) => raw.listen(0, '127.0.0.1', resolve))
    open.push({
      close: () => {
        for (const socket of sockets) socket.destroy()
        return new Promise((resolve) => raw.close(resolve))
      },
    })
    return (raw.address() as AddressInfo).port
  }

  test('nobody at the port, a silent server, a dribbling one and a half-closed one end within the time limit', async () => {
    const closed = await rawServer(() => undefined)
    await (open.pop() as { close(): Promise<void> }).close()
    const silent = await rawServer(() => undefined)
    const dribbling = await rawServer((socket) => {
      const timer = setInterval(() => socket.write('220-wait\r\n'), 50)
      socket.on('close', () => clearInterval(timer))
    })
    const halfClosed = await rawServer((socket) => socket.end('220 ready\r\n'))
    for (const port of [closed, silent, dribbling, halfClosed]) {
      // Without the limit the test would never end.
      const error = await trouble(transport(port, { timeoutMs: 500 }).send(mail))
      assert.equal(error.trouble, 'server', `${port}: ${error.message}`)
    }
  })
})

test('the wait doubles up to its cap', () => {
  const rule = { retryDelayMs: 60_000, retryBackoffMultiplier: 2, retryMaxDelayMs: 200_000 }
  assert.deepEqual(
    [1, 2, 3, 9].map((attempts) => retryDelay(rule, attempts)),
    [60_000, 120_000, 200_000, 200_000],
  )
})

describe('the mailer', () => {
  const Row = z.object({
    status: z.string(),
    retry_count: z.int(),
    error_detail: z.string().nullable(),
    has_due: z.boolean(),
    sent_at: z.date().nullable(),
  })
  const None = z.object({})
  let database: TestDatabase
  let db: DatabasePool
  const running: Mailer[] = []
  before(async () => {
    database = await testDatabase()
    db = await openCheckedDatabase(settingsFor(database.connection, 6))
  })
  afterEach(async () => {
    for (const mailer of running.splice(0)) await mailer.stop(1_000)
    await db.query(rowsOf(None)`DELETE FROM notifications`)
  })
  after(async () => {
    await db.end()
    await database.drop()
  })

  const fast: NotificationSettings = {
    enabled: true,
    disabledTypes: [],
    mostToRecipient: 10,
    batchSize: 50,
    retryIntervalMs: 50,
    maxRetries: 3,
    retryDelayMs: 50,
    retryBackoffMultiplier: 1,
    retryMaxDelayMs: 1_000,
  }
  function mailer(
    port: number,
    over: Partial<NotificationSettings> = {},
    instanceId = 1,
    broken: (error: unknown) => void = () => undefined,
  ): Mailer {
    const made = new Mailer({
      db,
      instanceId,
      transport: new MailTransport(settings(port)),
      settings: () => ({ ...fast, ...over }),
      events: { sent: () => undefined, failed: () => undefined, overdue: () => undefined, broken },
    })
    running.push(made)
    made.start()
    return made
  }
  /** Mails that have been received in whole, and the answers to those that wait for one. */
  function holding() {
    const received: string[] = []
    const held: (() => void)[] = []
    const hold: SMTPServerOptions['onData'] = (stream, session, done) => {
      stream.resume()
      stream.on('end', () => {
        received.push(session.id)
        held.push(() => done())
      })
    }
    return { received, held, hold }
  }
  /** The database takes no connections, and has ended all that there were. */
  async function setAway(isAway: boolean): Promise<void> {
    const { database: name } = database.connection
    const outside = { ...database, connection: { ...database.connection, database: 'postgres' } }
    await rowsIn(outside, `ALTER DATABASE ${name} ALLOW_CONNECTIONS ${!isAway}`)
    const end =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'"
    if (isAway) await rowsIn(outside, end, [name])
  }
  async function aNotification(ageHours = 0): Promise<string> {
    const id = uuidv7(Date.now())
    await insertNotifications(db, [
      {
        id,
        type: 'account_deactivated',
        recipient: 'ops@example.com',
        subject: 's',
        text: 't',
        html: 'h',
        accountId: undefined,
        error: undefined,
        messageId: `<${id}@acme.example.com>`,
        dueAt: new Date(Date.now() - ageHours * 3_600_000),
      },
    ])
    return id
  }
  const row = (id: string) =>
    db.one(rowsOf(Row)`
      SELECT status, retry_count, error_detail, due_at IS NOT NULL AS has_due, sent_at FROM notifications WHERE id = ${id}`)
  const untilStatus = (id: string, status: string) =>
    until(`${id} is ${status}`, async () => {
      const found = await row(id)
      return found.status === status && (status !== 'failed' || !found.has_due) ? found : undefined
    })

  test('sends what is due and records it', async () => {
    const { port, mails } = await server()
    const ids = [await aNotification(), await aNotification(), await aNotification()]
    mailer(port)
    for (const id of ids) assert.ok((await untilStatus(id, 'sent')).sent_at)
    assert.equal(mails.length, 3)
  })

  // No presence lock is held for instance 99, so that it counts as gone; the mailer is a new thread of instance 1.
  for (const [what, state] of [
    ['what is recorded for later, as the clock of the database was ahead', "due_at = now() + interval '1 hour'"],
    ['what an instance that is gone had claimed', 'claimed_by = 99'],
    ['what the thread had claimed that it replaces', 'claimed_by = 1'],
  ] as const)
    test(`sends at once ${what}`, async () => {
      const { port } = await server()
      const id = await aNotification()
      await rowsIn(database, `UPDATE notifications SET ${state} WHERE id = $1`, [id])
      mailer(port)
      await untilStatus(id, 'sent')
    })

  test('sends a claim that came back with an earlier state of the database', async () => {
    const { port } = await server()
    mailer(port)
    await untilStatus(await aNotification(), 'sent')
    const id = await aNotification()
    await rowsIn(
      database,
      "UPDATE notifications SET status = 'pending', claimed_by = 1, due_at = now() WHERE id = $1",
      [id],
    )
    await untilStatus(id, 'sent')
  })

  test('repeats at once what failed while the clock of the database was ahead', async () => {
    const { port } = await server()
    const id = await aNotification()
    await markFailed(db, id, { error: 'the mail server is away', delayMs: 7_200_000 })
    mailer(port)
    assert.equal((await untilStatus(id, 'sent')).retry_count, 1)
  })

  test('greylisted mail is sent later, with the same Message-ID', async () => {
    let attempts = 0
    const { port, mails } = await server({
      onRcptTo: (_address, _session, done) => (++attempts < 3 ? done(refusal(451, 'try again')) : done()),
    })
    const id = await aNotification()
    mailer(port)
    assert.equal((await untilStatus(id, 'sent')).retry_count, 2)
    assert.match(mails[0]?.text ?? '', new RegExp(`Message-ID: <${id}@`))
  })

  test('a refusal for good is not repeated; others end after max_retries', async () => {
    const { port } = await server({ onRcptTo: (_address, _session, done) => done(refusal(550, 'unknown user')) })
    const id = await aNotification()
    mailer(port)
    const refused = await untilStatus(id, 'failed')
    assert.equal(refused.retry_count, 1)
    assert.match(refused.error_detail ?? '', /unknown user/)
    const grey = await server({ onRcptTo: (_address, _session, done) => done(refusal(451, 'try again')) })
    const other = await aNotification()
    for (const one of running.splice(0)) await one.stop(1_000)
    mailer(grey.port)
    assert.equal((await untilStatus(other, 'failed')).retry_count, 4)
  })

  test('failed mails wait for the next look at them, which a change of the settings brings', async () => {
    let isBusy = true
    const { port } = await server({
      onRcptTo: (_address, _session, done) => (isBusy ? done(refusal(451, 'try again')) : done()),
    })
    const id = await aNotification()
    const sending = mailer(port, { retryIntervalMs: 3_600_000, retryDelayMs: 1 })
    await until('it has failed once', async () => (await row(id)).retry_count === 1)
    isBusy = false
    // Others are sent at the next look for new ones.
    await untilStatus(await aNotification(), 'sent')
    assert.equal((await row(id)).status, 'failed')
    sending.wake()
    await untilStatus(id, 'sent')
  })

  test('no more than a batch is taken up at once', async () => {
    const { port } = await server({ onData: (stream) => void stream.resume() })
    for (let n = 0; n < 5; n++) await aNotification()
    const sending = mailer(port, { batchSize: 2 })
    const Claimed = z.object({ claimed: z.int() })
    const claimed = async () =>
      (
        await db.one(rowsOf(Claimed)`
          SELECT count(*)::integer AS claimed FROM notifications WHERE claimed_by IS NOT NULL`)
      ).claimed
    await until('a batch is under way', async () => (await claimed()) > 0)
    assert.equal(await claimed(), 2)
    running.splice(running.indexOf(sending), 1)
    await sending.stop(100)
  })

  test('no mail is lost when the mail server dies in the middle and comes back', async () => {
    const first = await server({ onData: (stream) => void stream.resume() })
    const ids: string[] = []
    for (let n = 0; n < 20; n++) ids.push(await aNotification())
    const sending = mailer(first.port, { maxRetries: 50 })
    await until('mails are under way', async () =>
      (await Promise.all(ids.map(row))).every(({ status }) => status !== 'sent'),
    )
    await sending.stop(100)
    running.splice(0)
    await first.close()
    open.splice(0)
    const second = await server()
    mailer(second.port, { maxRetries: 50 })
    for (const id of ids) await untilStatus(id, 'sent')
    const seen = second.mails.map(({ text }) => /Message-ID: <(.*)@acme/.exec(text)?.[1])
    assert.deepEqual(new Set(seen), new Set(ids))
  })

  test('what waited a day before sending was switched on is failed with the reason', async () => {
    const { port, mails } = await server()
    const old = await aNotification(25)
    const recent = await aNotification(23)
    mailer(port)
    await untilStatus(recent, 'sent')
    assert.match((await untilStatus(old, 'failed')).error_detail ?? '', /24 hours/)
    assert.equal(mails.length, 1)
  })

  test('what was sent is recorded while another mail is still under way', async () => {
    const { held, hold } = holding()
    const { port } = await server({ onData: hold })
    const ids = [await aNotification(), await aNotification(), await aNotification()]
    mailer(port)
    await until('all three are under way', () => held.length === 3)
    for (const answer of held.splice(0, 2)) answer()
    const sent = async () => (await Promise.all(ids.map(row))).filter(({ status }) => status === 'sent').length
    await until('two are recorded', async () => (await sent()) === 2)
    held[0]?.()
    for (const id of ids) await untilStatus(id, 'sent')
  })

  test('what was sent while the database went away is recorded when it is back, and not sent again', async () => {
    const { held, received, hold } = holding()
    const { port } = await server({ onData: hold })
    const ids = [await aNotification(), await aNotification()]
    const errors: unknown[] = []
    mailer(port, {}, 1, (error) => errors.push(error))
    await until('both are under way', () => held.length === 2)
    await setAway(true)
    for (const answer of held.splice(0)) answer()
    await until('the record has failed', () => errors.length > 0)
    await setAway(false)
    for (const id of ids) await untilStatus(id, 'sent')
    assert.equal(received.length, 2)
  })

  test('the end of the service waits for the database, too, to record what was sent', async () => {
    const { held, hold } = holding()
    const { port } = await server({ onData: hold })
    const id = await aNotification()
    const errors: unknown[] = []
    const sending = mailer(port, {}, 1, (error) => errors.push(error))
    await until('it is under way', () => held.length === 1)
    await setAway(true)
    const stopped = sending.stop(60_000)
    held[0]?.()
    await until('the record has failed', () => errors.length > 1)
    await setAway(false)
    await stopped
    assert.equal((await row(id)).status, 'sent')
  })

  test('nothing is sent while notifications are off', async () => {
    const { port, mails } = await server()
    const id = await aNotification()
    const settings = { enabled: false }
    const switched = mailer(port, settings)
    const seen = await row(id)
    assert.equal(seen.status, 'pending')
    settings.enabled = true
    switched.wake()
    await untilStatus(id, 'sent')
    assert.equal(mails.length, 1)
  })
})
