/**
 * A fail-over to a standby that was behind: what restricts comes back before anybody works with the database, and what permits
 * is listed (docs/decisions/decisions-outlive-the-database.md).
 */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { findRunningSigner } from '../../src/ca/signer-place.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { adminConfig, createAdministrator } from '../support/admin.ts'
import { rowsIn } from '../support/database.ts'
import { type DatabasePair, startDatabasePair } from '../support/database-pair.ts'
import { operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('decisions that a fail-over has lost', () => {
  let pair: DatabasePair
  let first: TestService
  let second: TestService
  const config = () => ({
    ...adminConfig({}),
    crl: { enabled: true },
    nonce: { store: 'database' },
    database: { auto_setup: true, host: pair.hosts },
  })
  before(async () => {
    pair = await startDatabasePair()
    first = await startTestService({
      fronts: 1,
      database: { connection: pair.primary.connection, drop: async () => undefined },
      config: config(),
    })
    await createAdministrator(first.database, 'admin')
    const place = findRunningSigner(path.join(first.folder, 'signer-audit.jsonl'))
    assert.ok(place && place !== 'starting')
    const ca = { signer: { socket: place.socketPath, secret_file: place.secretFile } }
    second = await startTestService({ fronts: 1, config: { ...config(), ca }, beside: first })
  })
  after(async () => {
    closeConnections()
    await second?.dispose()
    await first?.dispose()
    await pair?.stop()
  })
  const now = () => ({ connection: pair.standby.connection, drop: async () => undefined })

  test('signing stays stopped', async () => {
    await pair.freeze()
    await operate(second, 'signing', 'stop', '--reason', 'the key may have leaked')
    await pair.primary.stop()
    await pair.promote()
    const rows = await until('it is dealt with', async () => {
      const found = await rowsIn(now(), 'SELECT act, outcome FROM lost_decisions ORDER BY decided_at')
      return found.length > 0 && found
    })
    assert.deepEqual(rows, [{ act: 'signing.stop', outcome: 'restored' }])
    await until('the instance works', async () => {
      const { status } = await send({ method: 'GET', url: `${first.baseUrl}/livez` })
      return status === 200
    })
    for (const service of [first, second])
      assert.equal(
        service.log.some(({ event, enabled }) => event === 'signing_switch_changed' && enabled === false),
        false,
      )
  })
})
