/** SIGHUP on a running service: what changes at once, what waits for a restart, what changes nothing. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { acmeScene } from '../support/acme-scene.ts'
import { type ConfigTree, configOf, hangUp as hangUpOf } from '../support/reload.ts'
import { until } from '../support/until.ts'

describe('SIGHUP', () => {
  const { service } = acmeScene('acme')
  let config: ReturnType<typeof configOf>
  let original: string
  before(async () => {
    config = configOf(service)
    original = config.text()
  })
  after(async () => {
    config.write(original)
    await hangUp()
  })

  const edit = (change: (tree: ConfigTree) => void) => config.edit(change, original)
  const hangUp = (message?: string) => hangUpOf(service, message)

  /** Statuses of the same request on many connections, so that every front thread answers some. */
  async function statuses(url: string): Promise<Set<number>> {
    const answers = await Promise.all(
      Array.from({ length: 16 }, async () => {
        const response = await fetch(url, { headers: { connection: 'close' } })
        await response.arrayBuffer()
        return response.status
      }),
    )
    return new Set(answers)
  }

  test('metrics are switched off and on again in all threads', async () => {
    const url = `${service.baseUrl}/metrics`
    assert.deepEqual(await statuses(url), new Set([200]))
    edit((tree) => {
      tree['metrics'] = { enabled: false }
    })
    assert.deepEqual((await hangUp())['applied'], ['metrics.enabled'])
    assert.deepEqual(await statuses(url), new Set([404]))
    config.write(original)
    await hangUp()
    assert.deepEqual(await statuses(url), new Set([200]))
  })

  test('the log level changes in all threads', async () => {
    const requestLines = (probe: string) => service.log.filter(({ path: requested }) => requested === probe).length
    const untilAllLogged = async (probe: string) => {
      await statuses(`${service.baseUrl}${probe}`)
      await until(`16 lines for ${probe}`, () => requestLines(probe) === 16)
    }
    await untilAllLogged('/first')
    edit((tree) => {
      tree['logging'] = { level: 'ERROR' }
    })
    assert.equal((await hangUp()).level, 'info')
    assert.equal((await hangUp()).level, 'info', 'fatal is for alarms')
    await statuses(`${service.baseUrl}/second`)
    config.write(original)
    assert.deepEqual((await hangUp())['applied'], ['logging.level'])
    await untilAllLogged('/third')
    // What a thread writes comes in order: lines of the second time would be here by now.
    assert.equal(requestLines('/second'), 0)
  })

  test('how often old counters are removed, and which ones, changes', async () => {
    const db = new pg.Client(service.database.connection)
    await db.connect()
    // Within the two hours that are kept by default.
    const tat = (Date.now() - 5_400_000) * 1000
    await db.query('INSERT INTO rate_limits (key, tat, step, tolerance, granted) VALUES ($1, $2, 1, 1, 1)', [
      'old',
      tat,
    ])
    const isThere = async () => (await db.query(`SELECT FROM rate_limits WHERE key = 'old'`)).rowCount === 1
    try {
      assert.deepEqual((await hangUp())['applied'], [])
      assert.equal(await isThere(), true)
      edit((tree) => {
        const rate_limits = { enabled: false, gc_interval_seconds: 1, gc_max_age_seconds: 60 }
        tree['security'] = { ...tree['security'], rate_limits }
      })
      assert.deepEqual(((await hangUp())['applied'] as string[]).toSorted(), [
        'security.rate_limits.gc_interval_seconds',
        'security.rate_limits.gc_max_age_seconds',
      ])
      await until('the counter is gone', async () => !(await isThere()))
      config.write(original)
      await hangUp()
    } finally {
      await db.end()
    }
  })

  test('what needs a restart is named and not changed', async () => {
    edit((tree) => {
      tree['order'] = { ...tree['order'], expiry_seconds: 4242 }
      tree['server'] = { ...tree['server'], graceful_timeout: 7 }
    })
    const line = await hangUp()
    assert.deepEqual(line['applied'], [])
    assert.deepEqual((line['needRestart'] as string[]).toSorted(), ['order.expiry_seconds', 'server.graceful_timeout'])
    assert.deepEqual((await hangUp())['needRestart'], line['needRestart'], 'it is named each time')
    config.write(original)
    assert.deepEqual((await hangUp())['needRestart'], [])
  })

  test('a file with errors changes nothing and all its errors are logged', async () => {
    edit((tree) => {
      tree['metrics'] = { enabled: false }
      tree['server'] = { ...tree['server'], port: 'many' }
      tree['loging'] = { level: 'DEBUG' }
    })
    const line = await hangUp('the configuration file is not usable; nothing is changed')
    const errors = (line['errors'] as string[]).join('\n')
    assert.match(errors, /server\.port/)
    assert.match(errors, /loging/)
    assert.deepEqual(await statuses(`${service.baseUrl}/metrics`), new Set([200]))
    config.write(': no yaml [')
    await hangUp('the configuration file is not usable; nothing is changed')
    config.write(original)
    assert.deepEqual((await hangUp())['applied'], [])
    assert.equal((await fetch(service.directoryUrl)).status, 200)
  })
})
