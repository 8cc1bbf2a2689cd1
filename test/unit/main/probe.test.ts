/** What the probes make of a signer that answers, refuses, or is known to be away. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import pg from 'pg'
import type { CaHealth } from '../../../src/ca/backend.ts'
import { isHealthy, unreadiness } from '../../../src/domain/health.ts'
import { createProbe, type ProbeParts } from '../../../src/main/probe.ts'

const UP: CaHealth = { signing: true, tokens: [] }
const TOKEN = { issuer: 'default', since: '2026-01-01T00:00:00Z' }

interface Scripted {
  failure?: Error
  refuses?: boolean
  health?: CaHealth
  isSilent?: boolean
  stopped?: boolean
  databaseAway?: boolean
  database?: (statement: string) => Promise<never[]>
  disk?: { trouble: 'full' | 'failing'; ageSeconds: number } | undefined
  others?: { name: string; isUp: boolean }[]
  mail?: ProbeParts['smtp']
  signerRecords?: 'ok' | 'error'
  givenUp?: number
}

/** `script` may change between two questions. */
function aProbe(script: Scripted) {
  const asked = { signatures: 0, health: 0 }
  const clock = { now: 0 }
  const parts: ProbeParts = {
    backends: () => ({ signer: 'internal', others: script.others ?? [] }),
    db: {
      query: ({ name }) =>
        script.database?.(name) ?? (script.databaseAway ? Promise.reject(new Error('away')) : Promise.resolve([])),
    },
    ca: {
      unreachable: () => script.failure,
      async testSign() {
        asked.signatures += 1
        if (script.refuses) throw new Error('the disk is full')
        return []
      },
      async health() {
        asked.health += 1
        if (script.isSilent) throw new Error('no answer in time')
        return script.health ?? UP
      },
    },
    signTimeoutMs: 10_000,
    flags: {
      pool: () => ({ max: 4, size: 0, available: 0, waiting: 0 }),
      isOn: (name) => name === 'stopSigning' && script.stopped === true,
      disk: () => script.disk,
      noteDisk: (trouble) => {
        script.disk = trouble && { trouble, ageSeconds: 0 }
      },
    },
    workers: () => ({ challenge: true, cleanup: true, expiration: true }),
    background: async () => ({ tasks: [], consumers: [] }),
    crl: () => undefined,
    signerRecords: () => script.signerRecords,
    givenUp: async () => script.givenUp ?? 0,
    dnsResolver: () => undefined,
    auditLog: () => undefined,
    smtp: script.mail,
    isStopping: () => false,
  }
  return { probe: createProbe(parts, () => clock.now), asked, clock }
}

test('the mail server is shown where mail is sent, and what it does never fails the check', async () => {
  const found = async (mail: ProbeParts['smtp']) => {
    const { probe } = aProbe({ ...(mail && { mail }) })
    const { checks } = await probe.health()
    return [checks.smtp?.status, (await probe.readiness()).isReady]
  }
  assert.deepEqual(await found(undefined), [undefined, true])
  assert.deepEqual(await found(async () => undefined), [undefined, true])
  assert.deepEqual(await found(async () => 'ok'), ['ok', true])
  assert.deepEqual(await found(async () => 'error'), ['error', true])
  assert.deepEqual(await found(() => Promise.reject(new Error('the thread is replaced'))), ['error', true])
})

describe('the gauges of readiness', () => {
  test('are 1 without a signature', async () => {
    const { probe, asked } = aProbe({})
    assert.deepEqual(await probe.readiness(), {
      isCaUp: true,
      isDatabaseUp: true,
      isReady: true,
      disk: undefined,
      givenUp: 0,
    })
    assert.deepEqual(asked, { signatures: 0, health: 1 })
  })

  const down: [string, Scripted][] = [
    ['is away', { failure: new Error('ENOENT') }],
    ['signs nothing any more', { health: { signing: false, tokens: [] } }],
    ['misses a token', { health: { signing: true, tokens: [{ ...TOKEN, status: 'away' }] } }],
  ]
  for (const [what, script] of down)
    test(`are 0 when the signer ${what}`, async () =>
      assert.deepEqual(await aProbe(script).probe.readiness(), {
        isCaUp: false,
        isDatabaseUp: true,
        disk: undefined,
        givenUp: 0,
        isReady: false,
      }))

  test('tell the database from the signer, and a signer that is stopped on purpose from one that is away', async () => {
    assert.deepEqual(await aProbe({ databaseAway: true }).probe.readiness(), {
      isCaUp: true,
      isDatabaseUp: false,
      disk: undefined,
      givenUp: 0,
      isReady: false,
    })
    assert.deepEqual(await aProbe({ stopped: true }).probe.readiness(), {
      isCaUp: true,
      isDatabaseUp: true,
      disk: undefined,
      givenUp: 0,
      isReady: true,
    })
  })

  test('go by a signature that a health endpoint did not get', async () => {
    const { probe } = aProbe({ refuses: true })
    assert.equal((await probe.health()).checks.ca_backend.reason, 'CA backend unavailable')
    assert.deepEqual(await probe.readiness(), {
      isCaUp: false,
      isDatabaseUp: true,
      disk: undefined,
      givenUp: 0,
      isReady: false,
    })
  })
})

describe('the health endpoints', () => {
  test('are degraded while the database lacks what the signer has recorded, and ready', async () => {
    const { probe } = aProbe({ signerRecords: 'error' })
    const report = await probe.health()
    assert.deepEqual(report.checks.signer_records, { status: 'error' })
    assert.deepEqual([isHealthy(report), unreadiness(report)], [false, undefined])
  })

  test('are degraded while something is lost that the signer has recorded, and nobody has accepted it', async () => {
    const report = await aProbe({ signerRecords: 'ok', givenUp: 2 }).probe.health()
    assert.deepEqual(report.checks.signer_records, { status: 'error', given_up: 2 })
    assert.equal((await aProbe({ signerRecords: 'ok', givenUp: 2 }).probe.readiness()).givenUp, 2)
    assert.deepEqual([isHealthy(report), unreadiness(report)], [false, undefined])
  })

  test('ask a signer that is known to be away nothing, and look again as soon as it is back', async () => {
    const script: Scripted = { failure: new Error('ENOENT') }
    const { probe, asked } = aProbe(script)
    assert.deepEqual((await probe.health()).checks.ca_backend, { status: 'error', reason: 'signer not reachable' })
    assert.deepEqual(asked, { signatures: 0, health: 0 })
    delete script.failure
    assert.deepEqual((await probe.health()).checks.ca_backend, { status: 'ok' })
    await probe.health()
    assert.equal(asked.signatures, 1, 'one signature serves everybody for a while')
  })

  test('have the instance ready for as long as a signature waits for a signer that was there', async () => {
    const script: Scripted = {}
    const { probe, clock } = aProbe(script)
    await probe.health()
    script.failure = new Error('ENOENT')
    for (const [now, reason, isReady] of [
      [9_000, 'signer connection lost', true],
      [13_000, 'signer not reachable', false],
    ] as const) {
      clock.now = now
      const report = await probe.health()
      assert.deepEqual(report.checks.ca_backend, { status: 'error', reason })
      assert.deepEqual([isHealthy(report), unreadiness(report) === undefined], [false, isReady])
      assert.deepEqual(await probe.readiness(), {
        isCaUp: false,
        isDatabaseUp: true,
        disk: undefined,
        givenUp: 0,
        isReady,
      })
    }
  })

  test('have the instance not ready when a signer that was silent loses its connection', async () => {
    const script: Scripted = {}
    const { probe, clock } = aProbe(script)
    await probe.health()
    script.isSilent = true
    clock.now = 1_000
    assert.equal((await probe.readiness()).isReady, false)
    script.failure = new Error('the signer is silent')
    clock.now = 4_000
    assert.equal((await probe.readiness()).isReady, false)
  })

  test('show the tokens beside the error', async () => {
    const tokens = [{ ...TOKEN, status: 'away' as const }]
    const { probe } = aProbe({ refuses: true, health: { signing: true, tokens } })
    assert.deepEqual((await probe.health()).checks.ca_backend, {
      status: 'error',
      tokens,
      reason: 'CA backend unavailable',
    })
  })

  test('sign at the start, after an error and every five minutes, and ask the sessions between', async () => {
    const script: Scripted = {}
    const { probe, asked, clock } = aProbe(script)
    const look = async (afterMs: number) => {
      clock.now += afterMs
      const { status } = (await probe.health()).checks.ca_backend
      return `${status} ${asked.signatures}`
    }
    assert.equal(await look(10_000), 'ok 1')
    for (let n = 0; n < 29; n++) assert.equal(await look(10_000), 'ok 1')
    assert.equal(await look(10_000), 'ok 2')
    // A token that its session does not reach.
    script.health = { signing: true, tokens: [{ ...TOKEN, status: 'away' }] }
    script.refuses = true
    assert.equal(await look(10_000), 'error 3')
    delete script.health
    assert.equal(await look(10_000), 'error 4')
    delete script.refuses
    assert.equal(await look(10_000), 'ok 5')
    assert.equal(await look(10_000), 'ok 5')
    script.failure = new Error('ENOENT')
    assert.equal(await look(10_000), 'error 5')
    delete script.failure
    assert.equal(await look(10_000), 'ok 6')
  })
})

test('a database that does not answer is asked one question at a time', async () => {
  let questions = 0
  const { probe } = aProbe({
    database: () => {
      questions += 1
      return new Promise(() => undefined)
    },
  })
  for (let i = 0; i < 2; i++) assert.equal((await probe.readiness()).isDatabaseUp, false)
  assert.equal(questions, 1)
})

describe('a disk of the database of which a statement said that it is full', () => {
  const full = { disk: { trouble: 'full' as const, ageSeconds: 0 } }

  test('counts for ten seconds, whatever the probe finds', async () => {
    const asked: string[] = []
    const { probe } = aProbe({
      ...full,
      database: async (name) => {
        asked.push(name)
        return []
      },
    })
    const report = await probe.health()
    assert.deepEqual([isHealthy(report), unreadiness(report)], [false, 'database disk full'])
    assert.deepEqual(asked, ['takes-writes'])
  })

  test('is over once the probe itself has written to it', async () => {
    const script: Parameters<typeof aProbe>[0] = { disk: { trouble: 'full', ageSeconds: 10 } }
    const { probe } = aProbe(script)
    assert.equal(unreadiness(await probe.health()), undefined)
    assert.equal(script.disk, undefined)
  })

  const refusal = (code: string) => Object.assign(new pg.DatabaseError('no', 0, 'error'), { code })

  test('stays so while the probe cannot write (53100)', async () => {
    const script: Parameters<typeof aProbe>[0] = {
      disk: { trouble: 'full', ageSeconds: 10 },
      database: async (name) => (name === 'has-room' ? Promise.reject(refusal('53100')) : []),
    }
    const found = await aProbe(script).probe.readiness()
    assert.deepEqual([found.isReady, found.isDatabaseUp, found.disk], [false, true, 'full'])
    assert.deepEqual(script.disk, { trouble: 'full', ageSeconds: 0 })
  })

  test('is left to the next statement where the probe may make no table (42501)', async () => {
    const script: Parameters<typeof aProbe>[0] = {
      disk: { trouble: 'full', ageSeconds: 10 },
      database: async (name) => (name === 'has-room' ? Promise.reject(refusal('42501')) : []),
    }
    assert.equal((await aProbe(script).probe.readiness()).isReady, true)
  })
})
