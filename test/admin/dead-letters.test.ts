/** Deliveries that failed for good, over HTTP and from the command line. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

describe('dead letters', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')

  const bury = async (consumer: string): Promise<string> => {
    const [row] = await sql<{ id: string }>(
      `INSERT INTO event_dead_letters (consumer, event_id, kind, subject, occurred_at, data, attempts, error)
       VALUES ($1, gen_random_uuid(), 'alarm', 'x', now(), '{"reason": "why"}', 3, 'no') RETURNING id`,
      [consumer],
    )
    return row?.id ?? ''
  }

  test('a dead letter is listed with its payload, and sent again once', async () => {
    await sql(`INSERT INTO event_consumers (name, kinds) VALUES ('away', '{alarm}')`, [])
    const id = await bury('away')
    const [letter] = (await admin.get('/events/dead')).json
    assert.deepEqual([letter.id, letter.consumer, letter.data, letter.attempts], [id, 'away', { reason: 'why' }, 3])
    assert.equal((await admin.send('POST', `/events/dead/${id}/retry`)).status, 204)
    assert.deepEqual((await admin.get('/events/dead')).json, [])
    const waiting = await sql<{ event_id: string }>(
      `SELECT event_id FROM event_deliveries WHERE consumer = 'away' AND data->>'reason' = 'why'`,
      [],
    )
    assert.deepEqual(waiting, [{ event_id: letter.event_id }])
    assert.equal((await admin.send('POST', `/events/dead/${id}/retry`)).status, 404)
  })

  test('the commands list them and send one again', async () => {
    const id = await bury('away')
    assert.match(await operate(service, 'events', 'dead'), new RegExp(`^${id} .*away +alarm +3 `, 'm'))
    await operate(service, 'events', 'retry', id)
    assert.doesNotMatch(await operate(service, 'events', 'dead'), new RegExp(id))
    const again = await chancery(service, 'events', 'retry', id)
    assert.equal(again.code, 1)
  })

  test('undelivered events are grouped by consumer and error, and one group or a choice is sent again', async () => {
    const ids = [await bury('away'), await bury('away'), await bury('away')]
    const causes: Record<string, unknown>[] = (await admin.get('/events/dead/causes')).json
    assert.deepEqual(each(causes, 'consumer', 'error', 'events'), [['away', 'no', 3]])
    const retry = async (body: object) => (await admin.send('POST', '/events/dead/retry', body)).json
    assert.deepEqual(await retry({ ids: [ids[1]] }), { retried: 1 })
    assert.deepEqual(await retry({ consumer: 'away', error: 'another' }), { retried: 0 })
    assert.deepEqual(await retry({ consumer: 'away', error: 'no' }), { retried: 2 })
    assert.deepEqual((await admin.get('/events/dead')).json, [])
    for (const wrong of [{}, { ids: [] }, { consumer: 'away' }, { ids, consumer: 'away', error: 'no' }])
      assert.equal((await admin.send('POST', '/events/dead/retry', wrong)).status, 400, JSON.stringify(wrong))
  })

  test('one whose consumer is gone stays', async () => {
    const id = await bury('gone')
    assert.equal((await admin.send('POST', `/events/dead/${id}/retry`)).status, 409)
    assert.match(await operate(service, 'events', 'dead'), new RegExp(`^${id} .*gone +alarm +3 `, 'm'))
    assert.deepEqual((await admin.send('POST', '/events/dead/retry', { ids: [id] })).json, { retried: 0 })
  })
})
