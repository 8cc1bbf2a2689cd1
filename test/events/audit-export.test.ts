/** Audit export to rsyslog, to an HTTP server and to a file: what a receiver gets, and what it misses. */

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sampleEvent } from '../../src/domain/event-samples.ts'
import { auditFileConsumer, syslogConsumer, webhookConsumer } from '../../src/events/audit-consumers.ts'
import { backoffDelayMs } from '../../src/events/consumer.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { type SyslogTarget, syslogTransport } from '../../src/events/syslog-sender.ts'
import { canMount, startDisk } from '../support/hosts/small-disk.ts'
import { type SyslogDaemon, syslogDaemon } from '../support/hosts/syslog-daemon.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startReceiver } from '../support/receiver.ts'
import { requireCommand } from '../support/requirements.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { type EventFixture, eventFixture } from './support.ts'

/** Ends with the test. */
async function receiving(t: TestContext, answer: Parameters<typeof startReceiver>[0]): Promise<string> {
  const { url, close } = await startReceiver(answer)
  t.after(close)
  return url
}

describe('audit export', () => {
  let fixture: EventFixture
  const folder = temporaryFolder()
  before(async () => {
    fixture = await eventFixture()
  })
  after(async () => {
    await fixture.close()
  })

  const emit = (n: number) =>
    fixture.run("SELECT emit_event('admin.action', $1, NULL, $2::jsonb)", [String(n), JSON.stringify({ n })])
  async function emitMany(first: number, count: number): Promise<void> {
    for (let n = first; n < first + count; n++) await emit(n)
  }
  describe('to rsyslog', requireCommand('rsyslogd'), () => {
    let daemon: SyslogDaemon
    before(async () => {
      daemon = await syslogDaemon(folder)
      await daemon.start()
    })
    after(() => daemon.stop())

    const target = (transport: SyslogTarget['transport'], ca?: string): SyslogTarget => ({
      host: 'localhost',
      port: daemon.ports[transport],
      transport,
      ca,
    })
    /** Numbers of the events that the daemon has written down. */
    const received = () => daemon.lines().map((line) => Number(/"data":\{"n":(\d+)\}/.exec(line)?.[1]))

    for (const transport of ['udp', 'tcp', 'tls'] as const)
      test(`a message over ${transport} has priority, kind and id in their places`, async () => {
        const syslog = syslogTransport(target(transport, readFileSync(daemon.caFile, 'utf8')))
        const running = await fixture.delivering(syslogConsumer(syslog), `syslog-${transport}`)
        await emit(transport.length)
        await until('it is delivered', async () => (await fixture.waiting(running.consumer)) === 0)
        const line = await until('it is written', () => daemon.lines().at(-1))
        assert.match(
          line,
          /^109 chancery admin\.action \[event@32473 id="[0-9a-f-]{36}" kind="admin\.action" subject="3"\] \{"event":"admin\.action",/,
        )
        await running.end()
        syslog.close()
      })

    test('a receiver that nobody vouches for gets nothing', async () => {
      const syslog = syslogTransport(target('tls'))
      await assert.rejects(syslog.send('x'), /self-signed certificate/)
      const elsewhere = syslogTransport({ ...target('tls', readFileSync(daemon.caFile, 'utf8')), host: '127.0.0.1' })
      await assert.rejects(elsewhere.send('x'), /does not match/)
    })

    test('a daemon that is killed and comes back has missed nothing', async () => {
      const syslog = syslogTransport(target('tls', readFileSync(daemon.caFile, 'utf8')))
      const running = await fixture.delivering(syslogConsumer(syslog), 'syslog-away')
      await emitMany(1000, 20)
      await until('the first are written', () => received().includes(1019))
      await daemon.kill()
      await emitMany(2000, 20)
      await until('an attempt has failed', async () => {
        const rows = await fixture.run('SELECT FROM event_deliveries WHERE attempts > 0', [])
        return rows.length > 0
      })
      await daemon.start()
      await until('all are delivered', async () => (await fixture.waiting(running.consumer)) === 0, 90_000)
      const numbers = new Set(received())
      for (let n = 0; n < 20; n++) assert.ok(numbers.has(1000 + n) && numbers.has(2000 + n), `${n}`)
      await running.end()
      syslog.close()
    })
  })

  test('a webhook gets each event, and again what it did not take', async (t) => {
    const bodies: { event: string; event_id: string; data: { n: number } }[] = []
    let refusals = 2
    const url = await receiving(t, (body, response) => {
      bodies.push(JSON.parse(body))
      response.writeHead(refusals-- > 0 ? 503 : 204).end()
    })
    const running = await fixture.delivering(
      webhookConsumer({ url: `${url}events?token=secret`, batch: 1, allowPrivate: true }),
      'webhook',
    )
    await emitMany(0, 5)
    await until('all are taken', async () => (await fixture.waiting(running.consumer)) === 0, 60_000)
    assert.equal(bodies.length, 7)
    assert.equal(new Set(bodies.map(({ event_id }) => event_id)).size, 5)
    assert.equal(bodies[0]?.event, 'admin.action')
    await running.end()
  })

  test('a webhook on a private address gets nothing, unless it is permitted', async (t) => {
    let requests = 0
    const { port } = new URL(
      await receiving(t, (_body, response) => {
        requests++
        response.writeHead(204).end()
      }),
    )
    const event = sampleEvent('admin.action')
    for (const host of ['127.0.0.1', 'localhost']) {
      const url = `http://${host}:${port}/`
      const deliver = (isPermitted: boolean) =>
        webhookConsumer({ url, batch: 1, allowPrivate: isPermitted }).deliver([event], new AbortController().signal)
      await assert.rejects(deliver(false), /private/)
      assert.equal(requests, 0)
      await deliver(true)
      assert.equal(requests, 1)
      requests = 0
    }
  })

  test('a webhook that expects arrays gets many events in one request', async (t) => {
    const bodies: { data: { n: number } }[][] = []
    const url = await receiving(t, (body, response) => {
      // The first request is refused as a whole.
      const isTaken = bodies.push(JSON.parse(body)) > 1
      response.writeHead(isTaken ? 204 : 503).end()
    })
    const consumer = webhookConsumer({ url, batch: 20, allowPrivate: true })
    await registerConsumer(fixture.db, 'webhook-arrays', consumer.kinds)
    await emitMany(0, 50)
    const running = await fixture.delivering(consumer, 'webhook-arrays')
    await until('all are taken', async () => (await fixture.waiting(running.consumer)) === 0, 60_000)
    assert.ok(bodies.every(({ length }) => length <= 20))
    assert.ok(bodies.some(({ length }) => length > 1))
    const numbers = new Set(bodies.slice(1).flatMap((events) => events.map(({ data }) => data.n)))
    assert.equal(numbers.size, 50)
    await running.end()
  })

  test('an error of the webhook does not name its URL', async () => {
    const consumer = webhookConsumer({ url: 'http://127.0.0.1:9/?token=secret', batch: 1, allowPrivate: true })
    const event = sampleEvent('alarm')
    const ended = AbortSignal.timeout(60_000)
    await assert.rejects(consumer.deliver([event], ended), (error: Error) => {
      assert.match(error.message, /^the webhook is not reachable/)
      return !error.message.includes('secret')
    })
  })

  test('a receiver may be away for days before an event is given up', () => {
    const delays = Array.from({ length: 4_000 }, (_, index) => backoffDelayMs(index + 1, new Error('away')))
    assert.deepEqual(delays.slice(0, 8), [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000])
    assert.ok(delays.every((delay) => delay !== undefined))
    assert.equal(backoffDelayMs(6_000, new Error('away')), undefined)
  })

  test('the file has mode 0600, begins anew when it is full, and keeps its former ones', async () => {
    const file = path.join(folder, 'audit.log')
    const consumer = await auditFileConsumer({ path: file, maxBytes: 2_000, backups: 2 })
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const running = await fixture.delivering(consumer, 'file')
    await emitMany(0, 40)
    await until('all are written', async () => (await fixture.waiting(running.consumer)) === 0)
    const sizes = [file, `${file}.1`, `${file}.2`].map((name) => statSync(name).size)
    assert.ok(
      sizes.every((size) => size > 0 && size <= 2_000),
      `${sizes}`,
    )
    assert.equal(statSync(`${file}.1`).mode & 0o777, 0o600)
    assert.throws(() => statSync(`${file}.3`), /ENOENT/)
    renameSync(file, `${file}.moved`)
    await emit(41)
    await until('a new file is begun', async () => (await fixture.waiting(running.consumer)) === 0)
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).data.n, 41)
    await running.end()
  })

  test('after a full disk the files have no torn line, and every record once', {
    skip: !canMount && 'needs to mount a tmpfs',
  }, async (t) => {
    const place = path.join(folder, 'small')
    mkdirSync(place)
    const disk = await startDisk(place, 256 * 1024)
    t.after(() => disk.stop())
    const file = path.join(disk.folder, 'audit.log')
    const ballast = path.join(disk.folder, 'ballast')
    // A crash has left a part of a record.
    writeFileSync(file, '{"whole":1}\n{"torn":')
    const consumer = await auditFileConsumer({ path: file, maxBytes: 8_000, backups: 50 })
    const { bavail, bsize } = statfsSync(disk.folder)
    // Two pages are left: the former file is filled, and the new one in part.
    writeFileSync(ballast, Buffer.alloc((Number(bavail) - 2) * Number(bsize)))
    const others = Array.from({ length: 99 }, () => sampleEvent('admin.action'))
    const events = [sampleEvent('admin.action'), ...others] as const
    await assert.rejects(consumer.deliver(events, AbortSignal.timeout(WAIT_MS)), /ENOSPC/)
    rmSync(ballast)
    await consumer.deliver(events, AbortSignal.timeout(WAIT_MS))
    const names = readdirSync(disk.folder).filter((name) => name.startsWith('audit.log'))
    const texts = names.map((name) => readFileSync(path.join(disk.folder, name), 'utf8'))
    const records = texts.flatMap((text) => text.split('\n').slice(0, -1)).map((line) => JSON.parse(line))
    assert.equal(records.length, events.length + 1)
    assert.ok(texts.every((text) => text === '' || text.endsWith('\n')))
  })

  test('a write that a disk holds up beyond its time, and fails then, takes no later record with it', async (t) => {
    const file = path.join(folder, 'hanging.log')
    const consumer = await auditFileConsumer({ path: file, maxBytes: 1_000_000, backups: 2 })
    const handle = await open(file)
    let fail: (error: Error) => void = () => {}
    const isHanging = new Promise<void>((hangs) => {
      const datasync = () =>
        new Promise<void>((_, reject) => {
          fail = reject
          hangs()
        })
      t.mock.method(Object.getPrototypeOf(handle), 'datasync', datasync, { times: 1 })
    })
    await handle.close()
    const time = AbortSignal.timeout(WAIT_MS)
    const first = consumer.deliver([sampleEvent('admin.action')], time)
    await isHanging
    const late = consumer.deliver([sampleEvent('admin.action')], AbortSignal.abort())
    const event = sampleEvent('admin.action')
    const second = consumer.deliver([event], time)
    await Promise.race([second, sleep(100)])
    fail(new Error('EIO'))
    await assert.rejects(first, /EIO/)
    await assert.rejects(late, /aborted/)
    await second
    assert.deepEqual(
      readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).event_id),
      [event.id],
    )
  })

  test('a file that cannot be written is an error at the start', async () => {
    const settings = { path: path.join(folder, 'absent', 'audit.log'), maxBytes: 2_000, backups: 2 }
    await assert.rejects(auditFileConsumer(settings), /^Error: cannot write to logging\.audit\.file .*ENOENT$/)
  })
})
