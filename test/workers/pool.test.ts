import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createWorkerPool, type WorkerPool } from '../../workers/pool.ts'
import { aJob, answering, type ScriptedWeb, startWeb } from './scripted-web.ts'

describe('worker pool', () => {
  let web: ScriptedWeb
  let pool: WorkerPool
  before(async () => {
    web = await startWeb(answering)
    pool = createWorkerPool({ threads: 2, concurrentTasksPerThread: 50, maxQueue: 1000 })
  })
  after(async () => {
    await pool.close(1000)
    await web.close()
  })

  test('a job goes to a thread and its verdict comes back with evidence', async () => {
    const verdict = await pool.validate(aJob(web.port))
    assert.equal(verdict.ok, true, JSON.stringify(verdict))
    assert.ok(verdict.evidence.some(({ step, address }) => step === 'connected' && address === '127.0.0.1'))
  })
})
