/** SIGHUP on a running service: what changes at once, what waits for a restart, what changes nothing. */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import pg from 'pg'
import { parse, stringify } from 'yaml'
import { type LogLine, startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

type Tree = Record<string, Record<string, unknown>>

describe('SIGHUP', () => {
  let service: TestService
  let configFile: string
  before(async () => {
    service = await startTestService()
    configFile = path.join(service.folder, 'config.yaml')
  })
  after(() => service.dispose())
  beforeEach(() => {
    original = readFileSync(configFile, 'utf8')
  })
  let original: string

  function edit(change: (config: Tree) => void): void {
    const config = parse(original) as Tree
    change(config)
    writeFileSync(configFile, stringify(config))
  }

  /** The line that a SIGHUP ends with. */
  async function hangUp(message = 'configuration read again'): Promise<LogLine> {
    const seen = service.log.length
    service.process.kill('SIGHUP')
    return until(message, () => service.log.slice(seen).find((line) => line.message === message))
  }

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
    edit((config) => {
      config['metrics'] = { enabled: false }
    })
    assert.deepEqual((await hangUp())['applied'], ['metrics.enabled'])
    assert.deepEqual(await statuses(url), new Set([404]))
    writeFileSync(configFile, original)
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
    edit((config) => {
      config['logging'] = { level: 'ERROR' }
    })
    assert.equal((await hangUp()).level, 'info')
    assert.equal((await hangUp()).level, 'info', 'fatal is for alarms')
    await statuses(`${service.baseUrl}/second`)
    writeFileSync(configFile, original)
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
      edit((config) => {
        config['security'] = { rate_limits: { enabled: false, gc_interval_seconds: 1, gc_max_age_seconds: 60 } }
      })
      assert.deepEqual(((await hangUp())['applied'] as string[]).toSorted(), [
        'security.rate_limits.gc_interval_seconds',
        'security.rate_limits.gc_max_age_seconds',
      ])
      await until('the counter is gone', async () => !(await isThere()))
      writeFileSync(configFile, original)
      await hangUp()
    } finally {
      await db.end()
    }
  })

  test('what needs a restart is named and not changed', async () => {
    edit((config) => {
      config['order'] = { ...config['order'], expiry_seconds: 4242 }
      config['server'] = { ...config['server'], graceful_timeout: 7 }
    })
    const line = await hangUp()
    assert.deepEqual(line['applied'], [])
    assert.deepEqual((line['needRestart'] as string[]).toSorted(), ['order.expiry_seconds', 'server.graceful_timeout'])
    assert.deepEqual((await hangUp())['needRestart'], line['needRestart'], 'it is named each time')
    writeFileSync(configFile, original)
    assert.deepEqual((await hangUp())['needRestart'], [])
  })

  test('a file with errors changes nothing and all its errors are logged', async () => {
    edit((config) => {
      config['metrics'] = { enabled: false }
      config['server'] = { ...config['server'], port: 'many' }
      config['loging'] = { level: 'DEBUG' }
    })
    const line = await hangUp('the configuration file is not usable; nothing is changed')
    const errors = (line['errors'] as string[]).join('\n')
    assert.match(errors, /server\.port/)
    assert.match(errors, /loging/)
    assert.deepEqual(await statuses(`${service.baseUrl}/metrics`), new Set([200]))
    writeFileSync(configFile, ': no yaml [')
    await hangUp('the configuration file is not usable; nothing is changed')
    writeFileSync(configFile, original)
    assert.deepEqual((await hangUp())['applied'], [])
    assert.equal((await fetch(service.directoryUrl)).status, 200)
  })
})

test('server.keepalive 0 closes connections; that it is ready and stops is logged at any level, and pages nobody', async () => {
  const config = { server: { keepalive: 0 }, logging: { level: 'CRITICAL' } }
  const service = await startTestService({ fronts: 1, config })
  try {
    const answer = await fetch(service.directoryUrl)
    assert.equal(answer.headers.get('connection'), 'close')
    assert.equal((await fetch(service.directoryUrl)).status, 200)
    assert.equal(await service.stop(), 0)
    const life = ['service ready', 'service stopping', 'service stopped']
    assert.deepEqual(
      service.log.map(({ message, level }) => `${level} ${message}`),
      life.map((message) => `info ${message}`),
    )
  } finally {
    await service.dispose()
  }
})
