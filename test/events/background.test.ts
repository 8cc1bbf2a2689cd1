/** Background work of a whole service: who ran what, what waits, and what SIGTERM does to a delivery. */

import assert from 'node:assert/strict'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

interface Health {
  status: string
  checks: {
    workers: { tasks?: Record<string, { leader: number; last_run: string; next_run: string; errors: number }> }
    events?: { status: string; consumers: Record<string, { waiting: number }> }
  }
}

describe('background work', () => {
  let server: Server
  let service: TestService
  let database: pg.Client
  const ids: string[] = []
  /** Requests that have no answer yet; undefined answers at once. */
  let held: ServerResponse[] | undefined = []
  let config: Record<string, unknown>

  before(async () => {
    server = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => {
        body += chunk
      })
      request.on('end', () => {
        ids.push(JSON.parse(body).event_id)
        if (held) held.push(response)
        else response.writeHead(204).end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const webhook_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    config = {
      audit_export: { webhook_url, webhook_allow_private: true },
      server: { graceful_timeout: 3 },
      notifications: { enabled: true, expiration_check_interval_seconds: 777 },
    }
    service = await startTestService({ fronts: 1, config })
    database = new pg.Client({ ...service.database.connection })
    await database.connect()
  })
  after(async () => {
    server.closeAllConnections()
    server.close()
    await database?.end()
    await service?.dispose()
  })

  const health = async () => (await (await fetch(`${service.baseUrl}/healthz`)).json()) as Health
  const deliveries = async () =>
    (await database.query("SELECT claimed_by, attempts FROM event_deliveries WHERE consumer = 'audit-webhook'")).rows

  test('health and the command line say which instance ran each task, and when', async () => {
    const { checks, status } = await until('the first runs are recorded', async () => {
      const report = await health()
      const { order_expiry, expiration_warnings } = report.checks.workers.tasks ?? {}
      return order_expiry && expiration_warnings && report
    })
    assert.equal(status, 'ok')
    const { leader, last_run, next_run, errors } = checks.workers.tasks?.order_expiry ?? assert.fail()
    assert.ok(leader > 0 && Date.parse(next_run) > Date.parse(last_run) && errors === 0)
    const warnings = checks.workers.tasks?.expiration_warnings ?? assert.fail()
    assert.equal(Date.parse(warnings.next_run) - Date.parse(warnings.last_run), 777_000)
    assert.deepEqual(checks.events?.consumers['audit-webhook']?.waiting, 0)
    const printed = await operate(service, 'workers', 'status')
    assert.match(printed, new RegExp(`^order_expiry +instance ${leader}  last 2`, 'm'))
    assert.match(printed, /^consumer audit-webhook: 0 waiting$/m)
  })

  test('SIGTERM in the middle of a delivery leaves the event, which comes again with the same id', async () => {
    await database.query("SELECT emit_event('alarm', 'x', NULL, '{}'::jsonb)")
    await until('the receiver has the event', () => ids.length === 1)
    assert.equal(await service.stop(), 0)
    assert.deepEqual(await deliveries(), [{ claimed_by: null, attempts: 0 }])
    held = undefined
    // Time for the receiver of the next test.
    const patient = { ...config, server: { graceful_timeout: 60 } }
    service = await startTestService({ fronts: 1, config: patient, continueFrom: service })
    await until('it is delivered', async () => (await deliveries()).length === 0)
    assert.deepEqual(ids, [ids[0], ids[0]])
  })

  test('SIGTERM waits for a receiver that is about to answer', async () => {
    held = []
    await database.query("SELECT emit_event('alarm', 'y', NULL, '{}'::jsonb)")
    await until('the receiver has the event', () => held?.length === 1)
    const stopped = service.stop()
    setTimeout(() => held?.[0]?.writeHead(204).end(), 500)
    assert.equal(await stopped, 0)
    assert.deepEqual(await deliveries(), [])
  })

  test('a consumer that is behind is a warning, not a failure', async () => {
    held = []
    await database.query("SELECT emit_event('alarm', 'z', NULL, '{}'::jsonb)")
    await database.query("UPDATE event_deliveries SET occurred_at = now() - interval '1 hour'")
    service = await startTestService({ fronts: 1, config, continueFrom: service })
    const { status } = await until('health says so', async () => {
      const report = await health()
      return report.checks.events?.status === 'behind' && report
    })
    assert.equal(status, 'ok')
  })
})
