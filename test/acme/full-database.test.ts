/** A database whose disk is full, or takes no writes: clients, probes and metrics hear of it, until a look finds room again. */

import assert from 'node:assert/strict'
import { afterEach, describe, test } from 'node:test'
import { send } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { until } from '../support/until.ts'

describe('a database that answers and cannot use its disk', () => {
  const { service, client, database } = acmeScene('few connections')
  const at = (place: string) => send({ method: 'GET', url: `${service.baseUrl}${place}` })
  afterEach(() => database.query('DROP FUNCTION IF EXISTS obstruct CASCADE'))

  for (const [state, kind, detail, reason] of [
    ['53100', 'full', /disk of the database is full/, 'database disk full'],
    ['58030', 'failing', /database cannot use its disk/, 'database disk failing'],
  ] as const)
    test(`${state}: 503 that says so, not ready with its own word, and ready once something was written`, async () => {
      await database.query(`
        CREATE FUNCTION obstruct() RETURNS trigger LANGUAGE plpgsql
          AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '${state}'; END $$;
        CREATE TRIGGER obstructed BEFORE INSERT ON orders EXECUTE FUNCTION obstruct()`)
      const refused = await client.post(`${service.baseUrl}/new-order`, {
        identifiers: [{ type: 'dns', value: 'full.test' }],
      })
      assert.equal(refused.status, 503, refused.text)
      assert.ok(Number(refused.headers['retry-after']) > 0)
      assert.match(refused.json.detail, detail)
      const ready = await until('it is not ready', async () => {
        const answer = await at('/readyz')
        return answer.status === 503 && answer
      })
      assert.equal(ready.json.reason, reason)
      const { checks } = (await at('/healthz')).json
      assert.deepEqual([checks.database.status, checks.database.reason], ['error', reason])
      const { text } = await at('/metrics')
      assert.match(text, new RegExp(`service_database_disk_trouble\\{kind="${kind}"\\} 1`))
      assert.match(text, /service_database_up 1/)
      assert.match(text, /service_ready 0/)
      await database.query('DROP FUNCTION obstruct CASCADE')
      await until('it is ready again', async () => (await at('/readyz')).status === 200)
      assert.match((await at('/metrics')).text, new RegExp(`service_database_disk_trouble\\{kind="${kind}"\\} 0`))
    })
})
