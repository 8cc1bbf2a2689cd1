/** A database that answers and cannot work: clients are told to come back, /readyz says no, and the service finds its way back alone. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type AcmeClient, type Answer, closeConnections, registeredClient } from '../support/acme-client.ts'
import { asSuperuser, type DatabasePair, startDatabasePair } from '../support/databases/database-pair.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

let orders = 0
const order = (client: AcmeClient): Promise<Answer> => {
  const identifiers = [{ type: 'dns', value: `host${++orders}.test` }]
  return client.post(client.directory['newOrder'] ?? '', { identifiers })
}
const orderMany = (client: AcmeClient, count: number) => Promise.all(Array.from({ length: count }, () => order(client)))
const statusesOf = (answers: readonly Answer[]) => [...new Set(answers.map(({ status }) => status))].sort()
const readiness = async ({ baseUrl }: TestService) => (await fetch(`${baseUrl}/readyz`)).status
const untilReadiness = (service: TestService, status: number) =>
  until(`/readyz says ${status}`, async () => (await readiness(service)) === status)

const loginRequest = {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ username: 'nobody', password: 'nothing that anybody has' }),
}

describe('a database with a standby beside it', () => {
  let pair: DatabasePair
  let service: TestService
  let client: AcmeClient
  before(async () => {
    pair = await startDatabasePair()
    service = await startTestService({
      database: { connection: pair.primary.connection, drop: async () => undefined },
      config: {
        database: { auto_setup: true, host: pair.hosts },
        admin_api: { enabled: true, token_secret: 'x'.repeat(32), initial_admin_email: 'root@test' },
      },
    })
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await service?.dispose()
    await pair?.stop()
  })

  test('whose standby is passed over in the list of hosts while the other takes writes', async () => {
    assert.deepEqual(statusesOf(await orderMany(client, 10)), [201])
    assert.equal(await isStandby(pair.standby.connection), true)
  })

  /** As a fail-over tool does it: for new sessions of this database, and the old ones are ended or left. */
  async function setReadOnly(isReadOnly: boolean): Promise<void> {
    const operator = new pg.Client(service.database.connection)
    await operator.connect()
    await operator.query('SET default_transaction_read_only = off')
    const name = service.database.connection.database
    const change = isReadOnly ? 'SET default_transaction_read_only = on' : 'RESET default_transaction_read_only'
    await operator.query(`ALTER DATABASE ${name} ${change}`)
    if (isReadOnly)
      await operator.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      )
    await operator.end()
  }

  test('whose sessions become read-only is away: 503 with Retry-After and not ready; afterwards all is as before, without a new start', async () => {
    assert.deepEqual(statusesOf(await orderMany(client, 10)), [201])
    await setReadOnly(true)
    await until('a refusal', async () => (await order(client)).status !== 201)
    await untilReadiness(service, 503)
    for (let round = 0; round < 10; round++) {
      const answers = await orderMany(client, 6)
      for (const { status, headers } of answers) {
        assert.equal(status, 503)
        assert.match(String(headers['retry-after']), /^\d+$/)
      }
      assert.equal(await readiness(service), 503)
      await sleep(200)
    }
    assert.equal((await fetch(`${service.baseUrl}/api/auth/login`, loginRequest)).status, 503)

    await setReadOnly(false)
    assert.deepEqual(statusesOf(await orderMany(client, 60)), [201])
    await untilReadiness(service, 200)
    assert.equal((await fetch(`${service.baseUrl}/api/auth/login`, loginRequest)).status, 401)
  })

  test('whose primary is made read-only by a reload: sessions that stay are not taken for ones that work', async () => {
    await asSuperuser(pair.primary, 'ALTER SYSTEM SET default_transaction_read_only = on')
    await asSuperuser(pair.primary, 'SELECT pg_reload_conf()')
    await untilReadiness(service, 503)
    assert.deepEqual(statusesOf(await orderMany(client, 6)), [503])
    await asSuperuser(
      pair.primary,
      'SET default_transaction_read_only = off',
      'ALTER SYSTEM RESET default_transaction_read_only',
    )
    await asSuperuser(pair.primary, 'SELECT pg_reload_conf()')
    await untilReadiness(service, 200)
    assert.deepEqual(statusesOf(await orderMany(client, 60)), [201])
  })

  test('is away while the standby is alone, and is found when that is promoted', async () => {
    await pair.primary.stop()
    await until('a refusal', async () => (await order(client)).status !== 201)
    await untilReadiness(service, 503)
    const refused = await orderMany(client, 6)
    assert.deepEqual(statusesOf(refused), [503])
    for (const { headers } of refused) assert.match(String(headers['retry-after']), /^\d+$/)

    await pair.promote()
    await until('an order', async () => (await order(client)).status === 201)
    await untilReadiness(service, 200)
    assert.deepEqual(statusesOf(await orderMany(client, 60)), [201])
    await service.waitForLog('presence connection lost')
  })
})

async function isStandby(connection: DatabaseConnection): Promise<boolean> {
  const client = new pg.Client(connection)
  await client.connect()
  const { rows } = await client.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is')
  await client.end()
  return rows[0]?.is === true
}
