/**
 * Clocks 400 days ahead and right again, that of the database, of the service with its signer, and all of them: what is valid
 * stays, certificates are issued, and a revocation is on a list of now.
 */

import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { clockEnvironment, setClock } from '../../bench/faults/clock-files.ts'
import type { EmbeddedPostgres } from '../../src/dev/postgres.ts'
import { POSTGRES_ENVIRONMENT } from '../../src/dev/postgres-cluster.ts'
import { send } from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { type Http01Responder, startHttp01Responder } from '../support/http01-responder.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestPostgres } from '../support/postgres.ts'
import { requireCommand } from '../support/requirements.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const AHEAD_SECONDS = 400 * 86_400

describe('clocks 400 days ahead, and right again', requireCommand('faketime'), () => {
  const folder = temporaryFolder()
  const clocks = { database: path.join(folder, 'database'), service: path.join(folder, 'service') }
  let postgres: EmbeddedPostgres
  let service: TestService
  let responder: Http01Responder
  let client: PersistentClient

  before(async () => {
    // PostgreSQL runs as another user.
    chmodSync(folder, 0o755)
    Object.assign(POSTGRES_ENVIRONMENT, clockEnvironment(clocks.database))
    postgres = await startTestPostgres()
    const environment = clockEnvironment(clocks.service)
    Object.assign(process.env, environment)
    service = await startTestService({
      fronts: 1,
      database: { connection: postgres.connection, drop: async () => undefined },
      config: {
        database: { auto_setup: true },
        crl: { enabled: true },
        retention: {
          certificates_days_after_expiry: 1,
          archive_dir: path.join(folder, 'archive'),
          cleanup_loop_interval_seconds: 1,
        },
        security: { rate_limits: { enabled: true, backend: 'database' } },
      },
    })
    for (const name of Object.keys(environment)) delete process.env[name]
    responder = await startHttp01Responder(service.http01Port)
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 4 * WAIT_MS })
    await client.register()
  })
  after(async () => {
    for (const file of Object.values(clocks)) setClock(file, 0)
    await responder?.close()
    await service?.dispose()
    await postgres?.stop()
  })

  async function obtain(name: string): Promise<HeldCertificate> {
    responder.serve(name, client.thumbprint)
    return client.obtain(name)
  }
  const numberOf = (text: string) =>
    withQuery(postgres.connection, async (query) => Number((await query(text))[0]?.['number']))
  const rounds = () =>
    numberOf("SELECT extract(epoch FROM last_run_at) AS number FROM background_runs WHERE task = 'clock'")
  const list = async () => readCrl((await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body)

  for (const wrong of [['database'], ['service'], ['database', 'service']] as const)
    test(`of ${wrong.join(' and ')}`, async () => {
      const name = wrong.join('-and-')
      const held = [await obtain(`first.${name}.test`), await obtain(`second.${name}.test`)] as const
      const certificates = await numberOf('SELECT count(*) AS number FROM certificates')
      for (const clock of wrong) setClock(clocks[clock], AHEAD_SECONDS)
      const isAhead = async () => {
        await send({ method: 'GET', url: `${service.baseUrl}/directory` })
        return wrong.includes('database' as never)
          ? (await numberOf('SELECT extract(epoch FROM now()) AS number')) > Date.now() / 1000 + AHEAD_SECONDS / 2
          : (await rounds()) > Date.now() / 1000 + AHEAD_SECONDS / 2
      }
      await until('the clock is ahead', isAhead)
      for (const clock of wrong) setClock(clocks[clock], 0)
      const revokedAt = Date.now()
      await client.revoke(held[0])
      const serial = held[0].leaf.serialNumber.toLowerCase()
      const crl = await until('a list with the revocation', async () => {
        const found = await list()
        return found.entries.some((entry) => entry.serial.toLowerCase().endsWith(serial)) &&
          found.thisUpdate.getTime() < Date.now() + 60_000
          ? found
          : undefined
      })
      assert.ok(crl.thisUpdate.getTime() >= revokedAt - 60_000, crl.thisUpdate.toISOString())
      assert.equal(await numberOf('SELECT count(*) AS number FROM certificates'), certificates)
      await obtain(`third.${name}.test`)
      const health = await send({ method: 'GET', url: `${service.baseUrl}/readyz` })
      assert.equal(health.status, 200)
    })
})
