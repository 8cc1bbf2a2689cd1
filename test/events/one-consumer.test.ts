/** Two services on one database, of which one has a consumer: who delivers, and what becomes of events while that one is away. */

import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { closeConnections, registeredClient, startResponder } from '../support/acme-client.ts'
import { rowsIn } from '../support/database.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Two instances need it. */
const nonce = { store: 'database' }

describe('a service without consumers beside one with a webhook', () => {
  let receiver: Receiver
  /** Event ids, as often as they came, by the name in the certificate. */
  const told = new Map<string, string[]>()
  /** Requests that have no answer yet; undefined answers at once. */
  let held: ServerResponse[] | undefined
  let config: Record<string, unknown>
  let telling: TestService
  let firstTelling: TestService
  let silent: TestService

  before(async () => {
    receiver = await startReceiver((body, response) => {
      const { id, data } = JSON.parse(body) as { id: string; data: { domains: string[] } }
      const name = data.domains[0] ?? assert.fail()
      told.set(name, [...(told.get(name) ?? []), id])
      if (held) held.push(response)
      else response.writeHead(204).end()
    })
    const { url } = receiver
    const hook = { class: 'webhook', events: ['certificate.issuance'], config: { url, allow_private: true } }
    config = { nonce, hooks: { registered: [hook], timeout_seconds: 60 } }
    firstTelling = await startTestService({ fronts: 1, config })
    telling = firstTelling
  })
  after(async () => {
    closeConnections()
    receiver.close()
    for (const service of [silent, telling, firstTelling]) await service?.dispose()
  })

  async function issue(name: string, by = silent): Promise<void> {
    const responder = await startResponder(by.http01Port)
    const client = await registeredClient(by.directoryUrl)
    await client.obtain([name], responder).finally(() => responder.close())
  }
  const waiting = () =>
    rowsIn<{ name: string; claimed_by: number | null; attempts: number }>(
      telling.database,
      "SELECT data #>> '{row,names,0}' AS name, claimed_by, attempts FROM event_deliveries ORDER BY sequence",
    )
  const nothingWaits = () => until('nothing waits', async () => (await waiting()).length === 0)

  test('the service without consumers neither takes nor loses events of the other, which was killed and returns', async () => {
    held = []
    await issue('first.test', telling)
    await until('the receiver has the event', () => held?.length === 1)
    const [claimed] = await waiting()
    assert.ok(claimed?.claimed_by)
    await telling.kill()
    // Its start must not take what a dead instance had claimed, either.
    silent = await startTestService({ fronts: 1, config: { nonce }, beside: firstTelling })
    await issue('second.test')
    assert.deepEqual(await waiting(), [claimed, { name: 'second.test', claimed_by: null, attempts: 0 }])
    held = undefined
    telling = await startTestService({ fronts: 1, config, continueFrom: firstTelling })
    await nothingWaits()
    const [before, again] = told.get('first.test') ?? []
    assert.ok(before && before === again)
    assert.equal(told.get('second.test')?.length, 1)
  })

  test('what it causes is delivered by the other', async () => {
    await issue('third.test')
    await nothingWaits()
    assert.equal(told.get('third.test')?.length, 1)
  })

  test('what it causes while the other is stopped waits for that', async () => {
    assert.equal(await telling.stop(), 0)
    await issue('fourth.test')
    assert.deepEqual(await waiting(), [{ name: 'fourth.test', claimed_by: null, attempts: 0 }])
    const certificates = await rowsIn(telling.database, 'SELECT FROM certificates WHERE account_id IS NOT NULL')
    assert.deepEqual([certificates.length, told.size], [4, 3])
  })
})
