/** Certificates by every method that the bench answers itself, from a service in development mode. */

import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Options, parseOptions } from '../../bench/options.ts'
import { runScenario } from '../../bench/run.ts'
import { ANSWERED_TYPES } from '../../bench/scenario/issue.ts'
import { ownBuild } from '../../bench/servers/build.ts'
import type { Contestant } from '../../bench/servers/chancery.ts'
import { startBuild } from '../../bench/servers/chancery.ts'

const interrupt = new AbortController().signal
const AROUND = { progress: { begin: () => undefined, end: () => undefined }, interrupt }

describe('the full flow with the responders of the bench', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'challenges-test-'))
  chmodSync(folder, 0o755)
  let server: Contestant
  before(async () => {
    const plan = parseOptions({ start: true, workers: 1, challenge: 'dns-01', count: 10, warmup: 0, clients: 4 })
    server = await startBuild(await ownBuild(interrupt), folder, plan, interrupt)
  })
  after(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  const run = async (challengeType: string, more: Partial<Options> = {}) => {
    const options = { ...server.options, challengeType, processes: 2, ...more }
    const [result] = await runScenario(options, 'full-flow', AROUND)
    return result ?? assert.fail('no result')
  }

  for (const type of ANSWERED_TYPES) {
    test(`${type} gets certificates`, async () => {
      const { failures, succeeded, certificatesChecked } = await run(type)
      assert.deepEqual([failures, succeeded, certificatesChecked], [[], 10, 10])
    })
  }

  test('a proof that is not there is a failure of the challenge', async () => {
    const responders = { ...server.options.responders, dnsPort: 0 }
    const { succeeded, failures } = await run('dns-01', { responders, timeoutMs: 2000, count: 1 })
    assert.equal(succeeded, 0)
    assert.match(failures[0]?.kind ?? '', /^(challenge-dns|timeout)$/)
  })
})
