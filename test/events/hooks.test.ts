/** Hook modules: what they are told, and that none harms another, whatever it does. */

import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod/v4'
import { EVENT_KINDS } from '../../src/domain/event.ts'
import { sampleEvent } from '../../src/domain/event-samples.ts'
import { ExternalDelivery } from '../../src/events/delivery.ts'
import { registerConsumer } from '../../src/events/event-store.ts'
import { hookConsumers, logDeadLetter } from '../../src/events/hooks/hook-consumers.ts'
import { loadHooks } from '../../src/events/hooks/load-hooks.ts'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { type DatabasePool, rowsOf } from '../../src/store/slonik.ts'
import { methodOf } from '../../workers/module/module-contract.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { aConfig } from '../unit/config/support.ts'
import { type EventFixture, eventFixture } from './support.ts'

const MODULE = path.resolve(import.meta.dirname, '../../../test/fixtures/hooks/hooks.mjs')
const LOOK_MS = 20
const None = z.object({})
const Letter = z.object({
  consumer: z.string(),
  error: z.string(),
  attempts: z.int(),
  data: z.record(z.string(), z.unknown()),
})

test('a method is named like its event', () => {
  assert.equal(methodOf('certificate.issuance'), 'onCertificateIssuance')
  assert.equal(methodOf('challenge.before_validate'), 'onChallengeBeforeValidate')
  assert.equal(methodOf('ct.submission'), 'onCtSubmission')
})

describe('hooks', () => {
  const folder = temporaryFolder()
  let fixture: EventFixture
  let db: DatabasePool
  before(async () => {
    fixture = await eventFixture()
    db = fixture.db
  })
  after(async () => {
    await fixture.close()
  })

  const fileOf = (name: string) => path.join(folder, `${name}.jsonl`)
  /** Whole lines: a hook may be about to write one. */
  const linesOf = (name: string) => {
    const text = existsSync(fileOf(name)) ? readFileSync(fileOf(name), 'utf8') : ''
    const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
  }
  const entry = (name: string, more: object = {}) => ({
    class: `ext:${MODULE}#${name}`,
    // Long enough for a busy machine; those that never end are given a second.
    timeout_seconds: 60,
    config: { file: fileOf(name) },
    ...more,
  })
  const configWith = (registered: readonly object[], more: object = {}) =>
    aConfig({ hooks: { registered, max_workers: 8, ...more } })

  async function start(registered: readonly object[], more: object = {}) {
    const hooks = await loadHooks(configWith(registered, more))
    const made = hookConsumers({ hooks, db, maxWorkers: 8, includeRoot: false, onOutput: () => undefined })
    const delivered: { consumer: string; ms: number }[] = []
    const startedAt = performance.now()
    const events = {
      delivered: (consumer: string) => void delivered.push({ consumer, ms: performance.now() - startedAt }),
      postponed: () => undefined,
      buried: () => undefined,
      misfit: () => undefined,
      failed: (_consumer: string, error: unknown) => assert.fail(String(error)),
    }
    for (const { name, kinds } of made.consumers) await registerConsumer(db, name, kinds)
    const deliveries = made.consumers.map(
      (consumer) => new ExternalDelivery({ db, instanceId: fixture.instanceId, consumer, events }),
    )
    let isStopped = false
    // One loop each, as in the service: a round waits for a free place.
    const loops = deliveries.map(async (delivery) => {
      while (!isStopped) if ((await delivery.round()) === 0) await sleep(LOOK_MS)
    })
    return {
      hooks,
      delivered,
      async stop() {
        isStopped = true
        await Promise.all([...loops, ...deliveries.map((delivery) => delivery.stop(2_000))])
        await made.close()
        await db.query(rowsOf(None)`DELETE FROM event_consumers`)
      },
    }
  }

  const issue = (subject: string) =>
    db.query(rowsOf(None)`
      SELECT emit_event('certificate.issuance', ${subject}, NULL,
        ${JSON.stringify({ certificate_id: uuidv7(Date.now()), domains: ['a.test'] })}::jsonb)`)
  const letters = () => db.any(rowsOf(Letter)`SELECT consumer, error, attempts, data FROM event_dead_letters`)

  test('one is told the context with the event id, without the environment of the service', async () => {
    const running = await start([entry('Good')])
    assert.deepEqual(running.hooks[0]?.kinds, ['challenge.before_validate', 'certificate.issuance'])
    await issue('one')
    await until('it was called', () => linesOf('Good').length === 1).finally(running.stop)
    const [{ context, eventId, environment }] = linesOf('Good')
    assert.equal(context.event, 'certificate.issuance')
    assert.equal(context.event_id, eventId)
    assert.match(context.occurred_at, /^\d{4}-\d\d-\d\dT[\d:]{8}Z$/)
    assert.deepEqual(context.domains, ['a.test'])
    assert.equal(context.pem_chain, '')
    assert.deepEqual(environment, [])
  })

  test('one may name events beyond the ten that a hook without `events` is told of', async () => {
    const [plain] = await loadHooks(configWith([entry('Failures')]))
    assert.deepEqual(plain?.kinds, ['certificate.issuance'])
    const running = await start([entry('Failures', { events: ['certificate.issuance_failed', 'alarm'] })])
    assert.deepEqual(running.hooks[0]?.kinds, ['certificate.issuance_failed', 'alarm'])
    await db.query(rowsOf(None)`
      SELECT emit_event('certificate.issuance_failed', 'an order', NULL, '{"order_id": "an order"}')`)
    await db.query(rowsOf(None)`SELECT emit_event('alarm', 'crl', NULL, '{"message": "stale"}')`)
    await until('it was told of both', () => linesOf('Failures').length === 2).finally(running.stop)
    const told = linesOf('Failures').map(({ event, order_id, message }) => [event, order_id ?? message])
    assert.deepEqual(told.toSorted(), [
      ['alarm', 'stale'],
      ['certificate.issuance_failed', 'an order'],
    ])
  })

  test('the documents list every event that a hook may name', () => {
    const text = readFileSync(path.resolve(import.meta.dirname, '../../../docs/hooks.md'), 'utf8')
    for (const kind of EVENT_KINDS) assert.ok(text.includes(`\`${kind}\``), kind)
  })

  async function pace(running: Awaited<ReturnType<typeof start>>, what: string) {
    rmSync(fileOf('Good'), { force: true })
    for (let n = 0; n < 20; n++) await issue(`subject ${n}`)
    await until('the good one has all', () => linesOf('Good').length === 20)
    const times = running.delivered.map(({ ms }) => Math.round(ms)).toSorted((a, b) => a - b)
    console.log(`the good hook ${what}: median ${times[10]} ms, last ${times.at(-1)} ms`)
  }

  test('one that hangs, spins, throws, leaks or exits harms no other', async () => {
    const endless = ['Hangs', 'Spins', 'Leaks', 'Obeys']
    const faulty = [...endless, 'Throws', 'Exits']
    const alone = await start([entry('Good')])
    await pace(alone, 'alone')
    await alone.stop()
    const running = await start([
      entry('Good'),
      ...faulty.map((name) => entry(name, endless.includes(name) ? { timeout_seconds: 1 } : {})),
    ])
    await pace(running, `beside ${faulty.join(', ')}`)
    await until('the others have failed', async () => {
      return new Set((await letters()).map(({ consumer }) => consumer)).size === faulty.length
    })
    const dead = await letters()
    await running.stop()
    const reasons = new Map(dead.map(({ consumer, error }) => [consumer.split('#')[1], error]))
    assert.match(reasons.get('Hangs') ?? '', /did not end within 1 seconds/)
    assert.match(reasons.get('Spins') ?? '', /did not end within 1 seconds/)
    assert.match(reasons.get('Throws') ?? '', /failed: not today/)
    assert.match(reasons.get('Exits') ?? '', /ended its thread \(exit code 3\)/)
    assert.match(reasons.get('Obeys') ?? '', /failed: obeyed|did not end/)
    assert.match(reasons.get('Leaks') ?? '', /broke its thread|did not end/)
    assert.deepEqual(dead[0]?.data.domains, ['a.test'])
  })

  test('one that obeys its signal ends by itself', async () => {
    const running = await start([entry('Obeys', { timeout_seconds: 1 })])
    // A thread that stands still at the end of its time is cut off.
    await until('an end of its own', async () => {
      await issue('obeying')
      await sleep(1_000)
      return (await letters()).some(({ error }) => error.includes('failed: obeyed'))
    }).finally(running.stop)
  })

  test('a failure is repeated up to max_retries times', async () => {
    const running = await start([entry('Flaky')], { max_retries: 2 })
    await issue('flaky')
    await until('the third attempt', () => linesOf('Flaky').length === 1)
    await running.stop()
  })

  for (const [what, registered, expected] of [
    [
      'settings that it refuses',
      [{ class: `ext:${MODULE}#Good`, config: {} }],
      /registered\[0\]\.class: .*Good is not usable: file is missing/,
    ],
    ['no method for its events', [{ class: `ext:${MODULE}#Empty` }], /has no method for any of account\.registration/],
    ['no class', [{ class: `ext:${MODULE}#notAClass` }], /notAClass is not usable: is no class/],
    ['no such export', [{ class: `ext:${MODULE}#Missing` }], /exports no Missing/],
    ['no such file', [{ class: 'ext:./nowhere.js#Hook' }], /nowhere\.js#Hook is not usable: Cannot find module/],
  ] as const)
    test(`${what} refuses the start`, async () => {
      await assert.rejects(loadHooks(configWith(registered)), expected)
    })

  test('a disabled one is not loaded', async () => {
    assert.deepEqual(await loadHooks(configWith([{ class: 'ext:./nowhere.js#Hook', enabled: false }])), [])
  })

  test('the dead letter log has the whole payload, for its owner alone', async () => {
    const file = path.join(folder, 'dead.log')
    const event = sampleEvent('alarm')
    await logDeadLetter(file, 'hook x', event, new Error('why'))
    const line = JSON.parse(readFileSync(file, 'utf8'))
    assert.deepEqual([line.hook_name, line.event, line.error, line.data], ['hook x', 'alarm', 'why', event.data])
  })
})
