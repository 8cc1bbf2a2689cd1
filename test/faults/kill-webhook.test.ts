/** kill -9 of the service and of the receiver of its webhook while certificates are issued: no event is lost. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod/v4'
import { type DatabasePool, openCheckedDatabase, rowsOf } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { type Crowd, createMoments, startCrowd } from '../support/crowd.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const KILLS = 3
const CERTIFICATES = 100
/** Of what the last kill left, with the pauses between attempts. */
const BOUND_MS = 120_000

const Id = z.object({ id: z.string() })

describe('kill -9 of the service and of the receiver', { timeout: 400_000 }, () => {
  let folder: string
  let port: number
  let receiver: ChildProcess
  let first: TestService
  let service: TestService
  let crowd: Crowd
  let db: DatabasePool

  const file = () => path.join(folder, 'received.jsonl')
  async function startReceiver(): Promise<ChildProcess> {
    const entry = path.resolve(import.meta.dirname, '../events/receiver.js')
    const child = spawn(process.execPath, [entry, String(port), file()], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout as NodeJS.ReadableStream, 'data')
    return child
  }
  async function killReceiver(): Promise<void> {
    const ended = once(receiver, 'exit')
    receiver.kill('SIGKILL')
    await ended
  }
  const config = () => ({
    hooks: {
      registered: [
        {
          class: 'webhook',
          events: ['certificate.issuance'],
          config: { url: `http://127.0.0.1:${port}/`, allow_private: true, max_retries: 50 },
        },
      ],
    },
  })
  const issued = async () =>
    (await db.any(rowsOf(Id)`SELECT id::text FROM certificates WHERE order_id IS NOT NULL`)).map(({ id }) => id)
  const received = () =>
    (existsSync(file()) ? readFileSync(file(), 'utf8').trimEnd().split('\n') : []).map(
      (line) => JSON.parse(line) as { id: string; data: { certificate_id: string; pem_chain: string } },
    )

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-kill-webhook-'))
    port = await freePort()
    receiver = await startReceiver()
    first = await startTestService({ config: config() })
    service = first
    db = await openCheckedDatabase(settingsFor(service.database.connection, 2))
    const { directoryUrl, http01Port } = service
    crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 240_000 })
  })
  after(async () => {
    await crowd.close()
    await killReceiver()
    await db.end()
    await service.dispose()
    await first.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  test('every certificate was told at least once, with one id', async () => {
    const moment = createMoments(200, 1500)
    for (let kill = 0; kill < KILLS; kill++) {
      await sleep(moment())
      await killReceiver()
      await sleep(moment())
      await service.kill()
      service = await startTestService({ continueFrom: service, config: config() })
      await sleep(moment())
      receiver = await startReceiver()
    }
    await until('enough were issued', async () => (await issued()).length >= CERTIFICATES, BOUND_MS)
    await crowd.finish()
    const ids = await issued()
    const told = () => new Map(received().map(({ id, data }) => [data.certificate_id, id]))
    await until('all were told', () => ids.every((id) => told().has(id)), BOUND_MS)

    const events = received()
    assert.equal(new Set(events.map(({ id }) => id)).size, ids.length)
    assert.ok(events.every(({ data }) => data.pem_chain.startsWith('-----BEGIN CERTIFICATE-----')))
    console.log(`${ids.length} certificates, ${KILLS} kills of each, ${events.length} deliveries`)
  })
})
