/**
 * Two databases at one signer, as a split brain or staging beside production has them: one alarm a side says so, and both sides'
 * certificates and revocations are on both lists (docs/operations/failover.md, "Another database at the same signer").
 */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { findRunningSigner } from '../../src/ca/signer-place.ts'
import {
  closeConnections,
  type Responder,
  registeredClient,
  revoke,
  send,
  serialOf,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const config = { crl: { enabled: true } }

/** The database of a service that does not run, copied by PostgreSQL. */
async function copyOf({ database }: TestService): Promise<TestDatabase> {
  const other = await testDatabase()
  const name = `${database.connection.database}_copy`
  await rowsIn(other, `CREATE DATABASE ${name} TEMPLATE ${database.connection.database}`)
  return {
    connection: { ...database.connection, database: name },
    async drop() {
      await rowsIn(other, `DROP DATABASE ${name} WITH (FORCE)`)
      await other.drop()
    },
  }
}

/** All databases of the tests are made from one, and have its identity. */
async function unrelated(): Promise<TestDatabase> {
  const database = await testDatabase()
  await rowsIn(database, 'UPDATE database_identity SET id = gen_random_uuid()')
  return database
}

const KINDS = [
  { what: 'a copy of it', make: copyOf, says: /^a copy of this one in \S+, announced by \S+ http/ },
  { what: 'one of another service', make: unrelated, says: /^database [0-9a-f-]{36} in \S+, announced by/ },
]

for (const { what, make, says } of KINDS)
  describe(`a database at the signer of another one, ${what}`, () => {
    let former: TestService
    let first: TestService
    let second: TestService
    const responders: Responder[] = []
    before(async () => {
      former = await startTestService({ fronts: 1, config })
      await former.stop()
      const database = await make(former)
      first = await startTestService({ fronts: 1, config, continueFrom: former })
      const place = findRunningSigner(path.join(first.folder, 'signer-audit.jsonl'))
      assert.ok(place && place !== 'starting')
      const signer = { socket: place.socketPath, secret_file: place.secretFile }
      second = await startTestService({ fronts: 1, database, config: { ...config, ca: { signer } } })
      for (const { http01Port } of [first, second]) responders.push(await startResponder(http01Port))
    })
    after(async () => {
      closeConnections()
      for (const one of responders) await one.close()
      await second?.dispose()
      await first?.dispose()
      await former?.dispose()
    })

    const listed = async ({ baseUrl }: TestService) =>
      readCrl((await send({ method: 'GET', url: `${baseUrl}/crl` })).body).entries.map(({ serial }) => serial)

    test('is one alarm a side, and the lists of both sides have what both sides revoked', async () => {
      const revoked: string[] = []
      const work = async (label: string) => {
        for (const [at, service] of [first, second].entries()) {
          const client = await registeredClient(service.directoryUrl)
          const { der } = await client.obtain([`${label}-${at}.test`], responders[at]!)
          assert.equal((await revoke(client, der, 4)).status, 200)
          revoked.push(serialOf(der))
        }
      }
      // One pair before the signer can know, and one behind.
      await work('early')
      const both = [first, second]
      for (const service of both) {
        const { reason } = await service.waitForLog('another database uses this signer')
        assert.match(String(reason), says)
        assert.match(
          String(reason),
          /; part them as docs\/operations\/failover\.md#another-database-at-the-same-signer says$/,
        )
      }
      await work('late')
      for (const service of both)
        await until('the list has all', async () => {
          const serials = await listed(service)
          return revoked.every((serial) => serials.includes(serial))
        })
      for (const { log } of both)
        assert.deepEqual(
          log.filter(({ event }) => event === 'alarm').map(({ message }) => message),
          ['another database uses this signer'],
        )
    })

    test('is in metrics, health, doctor and the check of a configuration on both sides', async () => {
      for (const service of [first, second]) {
        const ask = (name: string) => send({ method: 'GET', url: `${service.baseUrl}/${name}` })
        await until('a scrape says so', async () => /^service_other_databases 1$/m.test((await ask('metrics')).text))
        await until('health says so', async () => (await ask('healthz')).json.checks.signer_records.status === 'error')
        const checked = await operate(service, '--validate-only')
        assert.match(checked, /^warning: another database uses this signer: .*; part them as docs/m)
        const { stdout } = await chancery(service, 'doctor', '--only', 'signer')
        assert.match(stdout, /FAIL {5}signer\.database: another database uses this signer: /)
      }
    })

    test('is no copy any more with an identity of its own, which no instance may have in memory', async () => {
      const identity = async () => (await rowsIn(second.database, 'SELECT id, key FROM database_identity'))[0]
      const { code, stderr } = await chancery(second, 'db', 'new-identity')
      assert.equal(code, 1)
      assert.match(stderr, /an instance runs on this database: stop all of them first/)
      const before = await identity()
      await second.stop()
      const { database } = JSON.parse(await operate(second, 'db', 'new-identity', '--json'))
      const now = await identity()
      assert.equal(now?.['id'], database)
      assert.notEqual(now?.['id'], before?.['id'])
      assert.notDeepEqual(now?.['key'], before?.['key'])
      assert.match(
        await operate(second, '--validate-only'),
        /another database uses this signer: database [0-9a-f-]{36} in /,
      )
    })
  })
