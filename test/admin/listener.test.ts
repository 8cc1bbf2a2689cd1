/** Where the Admin API listens, `admin_api.listen` or the public port, and what every reply of it has. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request as overHttp } from 'node:http'
import { request as overTls } from 'node:https'
import { after, before, describe, test } from 'node:test'
import { adminInstance } from '../support/admin/admin-instance.ts'
import { type AdminClient, adminConfig, administrator, adminRequest } from '../support/admin.ts'
import { loopbackCertificate, writeCertificate } from '../support/certificates.ts'
import { rowsIn, untilWaiting } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { metricOf } from '../support/metrics.ts'
import { WAIT_MS } from '../support/patience.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Of streamed replies at once, and of those of one administrator. */
const MOST_EXPORTS = 8
const MOST_OF_ONE = 2
const MAX_BODY_BYTES = 2_048

/** More than sockets hold: an export stands still until somebody reads it. */
const fillAuditLog = ({ database }: TestService) =>
  rowsIn(
    database,
    `INSERT INTO admin_audit_log (sequence, id, action, details, created_at, mac)
     SELECT -n, gen_random_uuid(), 'user.create', jsonb_build_object('username', repeat('x', 2000)), now(), '\\x00'
       FROM generate_series(1, 15000) n`,
  )

/** A reader that reads the head of the reply and nothing more. */
function slowExport(base: string, { token }: AdminClient): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` }
    const outgoing = overHttp(`${base}/api/audit-log/export`, { method: 'POST', agent: false, headers }, resolve)
    outgoing.on('error', reject)
    outgoing.end()
  })
}

function leave(readers: readonly IncomingMessage[]): void {
  for (const reader of readers) {
    reader.on('error', () => undefined)
    reader.destroy()
  }
}

for (const where of ['a port of its own', 'the public port'] as const) {
  describe(`the Admin API on ${where}`, () => {
    const isOwn = where === 'a port of its own'
    let service: TestService
    let base: string
    let admin: AdminClient
    before(async () => {
      const port = await freePort()
      service = await startTestService({
        config: {
          ...adminConfig({
            max_body_bytes: MAX_BODY_BYTES,
            ...(isOwn ? { listen: { port } } : { base_path: '/manage/api' }),
          }),
          server: { max_requests: 60, graceful_timeout: 30 },
          logging: { level: 'DEBUG' },
          security: { max_request_body_bytes: 8_192 },
        },
      })
      base = isOwn ? `http://127.0.0.1:${port}` : `${service.baseUrl}/manage`
      admin = await administrator({ baseUrl: base, database: service.database }, 'alice')
    })
    after(() => service.dispose())

    test(isOwn ? 'the other port knows nothing of it' : 'base_path is in front of every resource', async () => {
      assert.equal((await adminRequest(base, 'GET', '')).json.name, 'chancery')
      assert.equal((await adminRequest(service.baseUrl, 'GET', '')).status, 404)
      if (!isOwn) {
        const link = (await admin.get('/audit-log?limit=1')).headers.get('link') ?? ''
        assert.ok(link.startsWith(`<${base}/api/audit-log?`), link)
        return
      }
      const headers = { token: admin.token }
      assert.equal((await adminRequest(service.baseUrl, 'GET', '/me', headers)).status, 404)
      assert.equal((await adminRequest(service.baseUrl, 'POST', '/auth/login', { body: {} })).status, 404)
      for (const place of ['/directory', '/healthz', '/metrics', '/', '/apis', '/ap'])
        assert.equal((await fetch(base + place)).status, 404, place)
      assert.equal((await fetch(service.directoryUrl)).status, 200)
    })

    test('every reply has the id of its request, is not stored, and has the security headers', async () => {
      const headers = { 'x-request-id': 'ticket-4711' }
      for (const [path, token, status] of [
        ['/me', admin.token, 200],
        ['/me', undefined, 401],
        ['/nothing', admin.token, 404],
      ] as const) {
        const reply = await adminRequest(base, 'GET', path, { headers, ...(token !== undefined && { token }) })
        assert.equal(reply.status, status)
        assert.equal(reply.headers.get('x-request-id'), 'ticket-4711')
        assert.equal(reply.headers.get('cache-control'), 'no-store')
        assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
        assert.equal(reply.headers.get('x-frame-options'), 'DENY')
        assert.match(String(reply.headers.get('content-security-policy')), /default-src 'none'/)
        // RFC 6797 §7.2
        assert.equal(reply.headers.get('strict-transport-security'), null)
        if (status !== 200) assert.equal(reply.json.request_id, 'ticket-4711')
      }
      assert.match(String((await admin.get('/me')).headers.get('x-request-id')), /^[0-9a-f-]{36}$/)
    })

    test('a body above admin_api.max_body_bytes is refused with 413; ACME keeps its own limit', async () => {
      const body = (bytes: number) => JSON.stringify({ username: 'u', password: 'p'.repeat(bytes - 30) })
      const login = (bytes: number) => adminRequest(base, 'POST', '/auth/login', { body: body(bytes) })
      assert.notEqual((await login(MAX_BODY_BYTES - 100)).status, 413)
      const refused = await login(MAX_BODY_BYTES + 100)
      assert.deepEqual([refused.status, refused.json.error], [413, 'too_large'])
      assert.equal(refused.headers.get('cache-control'), 'no-store')
      const { newAccount } = (await (await fetch(service.directoryUrl)).json()) as { newAccount: string }
      const acme = async (bytes: number) => {
        const headers = { 'content-type': 'application/jose+json' }
        return (await fetch(newAccount, { method: 'POST', headers, body: body(bytes) })).status
      }
      assert.deepEqual([await acme(MAX_BODY_BYTES + 100), await acme(9_000)], [400, 413])
    })

    test('requests are counted', async () => {
      const counted = () => metricOf(service, 'http_requests_total{method="PATCH",status="404"}')
      const before = await counted()
      assert.equal((await admin.send('PATCH', '/nothing', {})).status, 404)
      await until('it is counted', async () => (await counted()) === before + 1)
    })

    test('SIGHUP and the replacement of front threads end no session', async () => {
      service.process.kill('SIGHUP')
      await service.waitForLog('configuration read again')
      const replaced = () => service.log.some((line) => JSON.stringify(line).includes('server.max_requests is reached'))
      await until('a front thread is replaced', async () => {
        assert.equal((await fetch(service.directoryUrl, { headers: { connection: 'close' } })).status, 200)
        return replaced()
      })
      // The thread ends its idle connections; a client repeats a GET that meets such an end (RFC 9112 §9.5).
      for (let i = 0; i < 20; i++) {
        const me = await admin.get('/me').catch(() => admin.get('/me'))
        assert.equal(me.status, 200)
      }
    })

    // The same wherever administrators are served.
    if (!isOwn)
      test('what a front thread has counted before it was replaced stays counted', async () => {
        const counted = () => metricOf(service, 'http_request_duration_seconds_count{resource="directory"}')
        const ends = () => service.log.filter((line) => JSON.stringify(line).includes('thread stopped')).length
        const [before, endsBefore] = [await counted(), ends()]
        let answered = 0
        await until('two front threads are replaced', async () => {
          for (let i = 0; i < 30; i++) {
            // A connection that a closing listener has not accepted is reset.
            const reply = await fetch(service.directoryUrl, { headers: { connection: 'close' } }).catch(() => undefined)
            if (reply?.status === 200) answered++
          }
          return ends() >= endsBefore + 2
        })
        await until('all are counted', async () => (await counted()) >= before + answered)
      })

    test('readers that do not read stop nobody, and leave nothing behind', async () => {
      await fillAuditLog(service)
      const names = ['bob', 'carol', 'dave', 'erin']
      const where = { baseUrl: base, database: service.database }
      const auditors = await Promise.all(names.map((name) => administrator(where, name)))
      const exporters = auditors.flatMap((auditor) => new Array<AdminClient>(MOST_OF_ONE).fill(auditor))
      assert.equal(exporters.length, MOST_EXPORTS)
      const readers = await Promise.all(exporters.map((auditor) => slowExport(base, auditor)))
      assert.deepEqual(new Set(readers.map(({ statusCode }) => statusCode)), new Set([200]))
      assert.equal((await admin.get('/users')).status, 200)
      const tooMany = await admin.send('POST', '/audit-log/export')
      assert.deepEqual([tooMany.status, tooMany.headers.get('retry-after')], [503, '10'])
      leave(readers)
      // All at once, and again those that came too early: they take turns, and rest fifteen times as long as they read.
      const others: IncomingMessage[] = []
      let waiting = exporters
      await until(
        'all of them are forgotten',
        async () => {
          const next = await Promise.all(waiting.map((auditor) => slowExport(base, auditor)))
          waiting = waiting.filter((_, index) => next[index]?.statusCode !== 200)
          others.push(...next.filter(({ statusCode }) => statusCode === 200))
          leave(next.filter(({ statusCode }) => statusCode !== 200))
          return others.length === MOST_EXPORTS
        },
        2 * WAIT_MS,
      )
      leave(others)
    })

    if (isOwn)
      test('TLS comes with HSTS', async (context) => {
        const files = writeCertificate(service.folder, 'admin', await loopbackCertificate())
        const listen = { cert_file: files.cert, key_file: files.key }
        const instance = await adminInstance(service, { admin_api: { listen } })
        context.after(() => instance.close())
        const reply = await new Promise<IncomingMessage>((resolve, reject) => {
          const options = { ca: readFileSync(files.cert), agent: false }
          overTls(`https://127.0.0.1:${instance.port}/api/me`, options, resolve).on('error', reject).end()
        })
        reply.resume()
        assert.equal(reply.statusCode, 401)
        assert.match(String(reply.headers['strict-transport-security']), /^max-age=\d+/)
        await assert.rejects(adminRequest(instance.baseUrl, 'GET', '/me'))
      })

    test('SIGTERM waits for the reply to a request', async () => {
      await withQuery(service.database.connection, async (query) => {
        await query('BEGIN')
        await query('LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE')
        const pending = admin.get('/accounts')
        await untilWaiting(service.database)
        const stopped = service.stop()
        await service.waitForLog('service stopping')
        await query('COMMIT')
        assert.equal((await pending).status, 200)
        assert.equal(await stopped, 0)
      })
    })
  })
}
