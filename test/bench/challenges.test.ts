/** Certificates by every method that the bench answers itself, from a service in development mode. */

import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Options, parseOptions } from '../../bench/options/options.ts'
import { runScenario } from '../../bench/run.ts'
import { ANSWERED_TYPES } from '../../bench/scenario/challenge.ts'
import { ownBuild } from '../../bench/servers/build.ts'
import { type Server, startServer } from '../../bench/servers/chancery.ts'

const NOBODY = { begin: () => undefined, end: () => undefined }

describe('the full flow with the responders of the bench', { timeout: 600_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'challenges-test-'))
  chmodSync(folder, 0o755)
  const never = Object.assign(new AbortController().signal, { again: new AbortController().signal })
  let server: Server
  before(async () => {
    const settings = {
      dataDir: folder,
      workers: 1,
      cpus: undefined,
      validator: undefined,
      asksDns: true,
      hasCrl: false,
    }
    server = await startServer(await ownBuild(never), settings, never)
  })
  after(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  const optionsFor = (challenge: string): Options => ({
    ...parseOptions({ challenge, count: 10, warmup: 0, clients: 4, processes: 2 }),
    directoryUrl: server.directoryUrl,
    responders: server.responders,
    caCertificates: server.root,
    rootCertificate: server.root,
    pids: { service: server.pid },
  })

  for (const type of ANSWERED_TYPES) {
    test(`${type} gets certificates`, async () => {
      const result = await runScenario(optionsFor(type), 'full-flow', NOBODY, never)
      assert.deepEqual(result.failures, [])
      assert.equal(result.succeeded, 10)
      assert.equal(result.certificatesChecked, 10)
    })
  }

  test('a proof that is not there is a failure of the challenge', async () => {
    const options = optionsFor('dns-01')
    const responders = { ...options.responders, dnsPort: 0 }
    const poll = { ...options.poll, timeoutMs: 500 }
    const result = await runScenario(
      { ...options, count: 1, clients: 1, processes: 1, responders, poll },
      'full-flow',
      NOBODY,
      never,
    )
    assert.equal(result.succeeded, 0)
    assert.match(result.failures[0]?.kind ?? '', /^(challenge-dns|timeout)$/)
  })
})
