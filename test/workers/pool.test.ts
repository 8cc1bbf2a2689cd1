import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { WorkerPoolError } from '../../workers/job.ts'
import { WorkerPool, type WorkerPoolOptions } from '../../workers/pool.ts'
import { each } from '../support/each.ts'
import { WAIT_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { caaScript } from './scripted-caa.ts'
import { serve, zoneScript } from './scripted-dns.ts'
import { aJob, answering } from './scripted-web.ts'
import { keptSilent, keptWeb } from './verdicts.ts'

function aPool(t: TestContext, options: Partial<WorkerPoolOptions> = {}): WorkerPool {
  const pool = new WorkerPool({ threads: 1, concurrentTasksPerThread: 2, maxQueue: 1, ...options })
  t.after(() => pool.close(0))
  return pool
}

/** A pool whose task fails on demand. */
function faultyPool(t: TestContext, options: Partial<WorkerPoolOptions> = {}): WorkerPool {
  return aPool(t, { taskFile: new URL('./faulty-task.js', import.meta.url), maxQueue: 100, ...options })
}
/** More time than a stalled machine takes. */
const faulty = (token: string, timeoutMs = WAIT_MS) => aJob(80, { token, timeoutMs })

const isError = (code: string) => (error: unknown) =>
  error instanceof WorkerPoolError && error.code === code && error.retryable

describe('worker pool', () => {
  test('a job goes to a thread and its verdict comes back with evidence', async (t) => {
    const web = await keptWeb(t, answering)
    const pool = aPool(t)
    const verdict = await pool.validate(aJob(web.port))
    assert.equal(verdict.ok, true, JSON.stringify(verdict))
    assert.ok(verdict.evidence.some(({ step, address }) => step === 'connected' && address === '127.0.0.1'))
  })

  test('a CAA check goes to a thread and its findings come back', async (t) => {
    const dns = await serve(t, caaScript({ 'no.example': ['0 issue ";"'] }))
    const pool = aPool(t)
    const findings = await pool.checkCaa({
      subjects: ['no.example', 'yes.example'].map((name) => ({ name, wildcard: false, method: 'http-01' })),
      identities: ['ca.example'],
      accountUri: 'https://acme.example/acct/1',
      unreachableOk: [],
      timeoutMs: WAIT_MS,
      dns: { resolvers: [dns.resolver], zones: [], timeoutMs: WAIT_MS, retries: 1 },
    })
    assert.deepEqual(each(findings, 'result'), ['forbidden', 'permitted'])
  })

  test('what neither runs nor fits the queue is refused at once', async (t) => {
    const pool = faultyPool(t, { maxQueue: 1 })
    const accepted = [1, 2, 3].map(() => pool.validate(faulty('slow')))
    await assert.rejects(pool.validate(faulty('slow')), isError('full'))
    assert.equal((await Promise.all(accepted)).length, 3)
    assert.deepEqual(await pool.validate(faulty('fine')), { ok: true, evidence: [] })
  })

  test('a queue of no length still runs what fits the threads', async (t) => {
    const pool = faultyPool(t, { maxQueue: 0 })
    const accepted = [pool.validate(faulty('slow')), pool.validate(faulty('slow'))]
    await assert.rejects(pool.validate(faulty('slow')), isError('full'))
    assert.equal((await Promise.all(accepted)).length, 2)
  })

  for (const token of ['exit', 'throw-later']) {
    test(`a thread that dies (${token}) loses its jobs and nothing else`, async (t) => {
      const pool = faultyPool(t)
      const neighbour = assert.rejects(pool.validate(faulty('slow')), isError('lost'))
      await assert.rejects(pool.validate(faulty(token)), isError('lost'))
      await neighbour
      assert.deepEqual(await pool.validate(faulty('fine')), { ok: true, evidence: [] })
    })
  }

  test('jobs that wait while a thread dies are run by the next one', async (t) => {
    const pool = faultyPool(t)
    const doomed = [faulty('exit'), faulty('slow')].map((job) => assert.rejects(pool.validate(job), isError('lost')))
    const waiting = Array.from({ length: 20 }, () => pool.validate(faulty('fine')))
    await Promise.all(doomed)
    assert.ok((await Promise.all(waiting)).every(({ ok }) => ok))
  })

  test('a task that rejects is lost, with the cause for the log', async (t) => {
    const pool = faultyPool(t)
    await assert.rejects(pool.validate(faulty('reject')), (error) => {
      assert.ok(isError('lost')(error))
      assert.match(String((error as WorkerPoolError).cause), /a fault of the task/)
      return true
    })
  })

  test('a stuck thread is replaced once its job is overdue', async (t) => {
    const errors: Error[] = []
    const pool = faultyPool(t, { graceMs: 300, onThreadError: (error) => errors.push(error) })
    await assert.rejects(pool.validate(faulty('spin', 200)), isError('lost'))
    assert.match(errors[0]!.message, /stuck/)
    assert.deepEqual(await pool.validate(faulty('fine')), { ok: true, evidence: [] })
  })

  test('a stuck thread costs those of other threads nothing', async (t) => {
    const pool = faultyPool(t, { threads: 2, graceMs: 300 })
    const stuck = assert.rejects(pool.validate(faulty('spin', 200)), isError('lost'))
    await sleep(10)
    const other = pool.validate(faulty('slower'))
    await stuck
    assert.deepEqual(await other, { ok: true, evidence: [] })
  })

  test('a slow job does not hold those back that were handed over with it', async (t) => {
    const pool = faultyPool(t, { concurrentTasksPerThread: 10 })
    const slow = pool.validate(faulty('slower'))
    const others = Array.from({ length: 9 }, () => pool.validate(faulty('fine')))
    assert.equal((await Promise.all(others)).length, 9)
    assert.equal(await Promise.race([slow, 'still running']), 'still running')
    assert.deepEqual(await slow, { ok: true, evidence: [] })
  })

  test('a verdict that cannot be handed over is lost, and those beside it are not', async (t) => {
    const pool = faultyPool(t, { concurrentTasksPerThread: 10 })
    const others = [1, 2, 3].map(() => pool.validate(faulty('fine')))
    await assert.rejects(pool.validate(faulty('uncloneable')), (error) => {
      assert.match(String((error as WorkerPoolError).cause), /cannot be handed over/)
      return isError('lost')(error)
    })
    assert.equal((await Promise.all(others)).length, 3)
  })

  test('a burst is shared among the threads, none of which has more than it may', async (t) => {
    const pool = faultyPool(t, { threads: 2, concurrentTasksPerThread: 20 })
    const verdicts = await Promise.all(Array.from({ length: 80 }, () => pool.validate(faulty('crowd'))))
    const seen = verdicts.flatMap(({ evidence }) => evidence)
    assert.equal(new Set(seen.map(({ threadId }) => threadId)).size, 2)
    assert.equal(Math.max(...seen.map(({ inside }) => Number(inside))), 20)
  })

  test('a thread that dies without a job is reported, and another follows', async (t) => {
    const errors: Error[] = []
    const pool = faultyPool(t, { onThreadError: (error) => errors.push(error) })
    await pool.validate(faulty('exit-later'))
    await until('an error', () => errors.length > 0)
    assert.match(errors[0]!.message, /exited/)
    assert.deepEqual(await pool.validate(faulty('fine')), { ok: true, evidence: [] })
  })

  test('a task file that does not load loses its jobs in bounded time and does not end the process', async (t) => {
    const taskFile = new URL('./no-such-file.js', import.meta.url)
    const pool = aPool(t, { taskFile, graceMs: 200 })
    for (let index = 0; index < 3; index++) {
      await assert.rejects(pool.validate(faulty('fine', 100)), isError('lost'))
    }
  })

  test('a thread sees nothing of the environment', async (t) => {
    process.env['CHANCERY_TEST_SECRET'] = 'x'
    t.after(() => delete process.env['CHANCERY_TEST_SECRET'])
    const [entry] = (await faultyPool(t).validate(faulty('environment'))).evidence
    // Coverage of the test run itself is all that may be there.
    assert.match(String(entry?.['names']), /^(NODE_V8_COVERAGE)?$/)
  })

  test('close lets running jobs finish and refuses the waiting and the new', async (t) => {
    const pool = faultyPool(t)
    const running = [pool.validate(faulty('slow')), pool.validate(faulty('slow'))]
    const waiting = assert.rejects(pool.validate(faulty('slow')), isError('closed'))
    const closed = pool.close(60_000)
    await assert.rejects(pool.validate(faulty('fine')), isError('closed'))
    await waiting
    assert.equal((await Promise.all(running)).length, 2)
    await closed
  })

  test('close ends running jobs when the time is over', async (t) => {
    const pool = faultyPool(t)
    const running = assert.rejects(pool.validate(faulty('spin')), isError('closed'))
    await sleep(100)
    await pool.close(200)
    await running
  })
})

describe('many validations at once', () => {
  test('150 jobs with DNS and HTTP get their own verdicts', async (t) => {
    const web = await keptWeb(t, answering)
    const dns = await serve(t, ({ name, type }) =>
      zoneScript({ [name]: Number(/\d+/.exec(name)?.[0]) % 5 === 0 ? [] : ['127.0.0.1'] })({ name, type } as never),
    )
    const pool = aPool(t, { threads: 2, concurrentTasksPerThread: 30, maxQueue: 150 })
    const settings = { resolvers: [dns.resolver], zones: [], timeoutMs: 120_000, retries: 2 }

    const verdicts = await Promise.all(
      Array.from({ length: 150 }, (_, index) => {
        const identifier = { type: 'dns' as const, value: `n${index}.example` }
        return pool.validate(aJob(web.port, { identifier, dns: settings, timeoutMs: 240_000 }))
      }),
    )
    assert.ok(verdicts.every((verdict, index) => verdict.ok === (index % 5 !== 0)))
  })

  test('150 jobs against a server that never answers end together with their deadline', async (t) => {
    const web = await keptSilent(t)
    const pool = aPool(t, { threads: 2, concurrentTasksPerThread: 75, maxQueue: 0 })
    const startedAt = performance.now()
    const verdicts = await Promise.all(
      Array.from({ length: 150 }, () => pool.validate(aJob(web.port, { timeoutMs: 1000 }))),
    )
    const ms = performance.now() - startedAt
    assert.ok(verdicts.every(({ ok }) => !ok))
    assert.ok(ms >= 950, `${ms} ms`)
  })
})
