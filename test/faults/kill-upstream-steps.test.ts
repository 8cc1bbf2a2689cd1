/**
 * kill -9 of a service between any two steps of an upstream order: the order ends valid without the client's help, with
 * one certificate here and upstream, and nothing is finalized twice.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createPersistentClient, type PersistentClient } from '../../bench/client/persistent-client.ts'
import { type Http01Responder, startChallengeFolder, startHttp01Responder } from '../support/http01-responder.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'

const PRELOADED = new URL('./die-at-upstream-step.js', import.meta.url).href

const STEPS = [
  'after order',
  'after place',
  'after answer',
  'before finalize',
  'after finalize',
  'after clean',
  'after download',
]

describe('kill -9 between two steps of an upstream order', () => {
  let folder: string
  let upstream: TestService
  let first: TestService
  let service: TestService
  let responder: Http01Responder
  let client: PersistentClient
  let closeWebServer: () => Promise<void>
  const challenges = () => path.join(folder, '.well-known', 'acme-challenge')

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-kill-upstream-'))
    mkdirSync(challenges(), { recursive: true })
    upstream = await startTestService({ fronts: 1 })
    closeWebServer = await startChallengeFolder(upstream.http01Port, challenges())
    first = await start(STEPS[0])
    service = first
    responder = await startHttp01Responder(service.http01Port)
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 420_000 })
    await client.register()
  })
  after(async () => {
    await responder?.close()
    if (service !== first) await service?.dispose()
    await first?.dispose()
    await closeWebServer?.()
    await upstream?.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  const nameOf = (step: string) => `${step.replaceAll(' ', '-')}.test`

  /** @param step where the process ends, in the order of the step's name; undefined for none */
  async function start(step: string | undefined): Promise<TestService> {
    const environment = {
      NODE_OPTIONS: `--import ${PRELOADED}`,
      CHANCERY_TEST_DIE_AT: step ?? 'never',
      CHANCERY_TEST_DIE_FOR: nameOf(step ?? 'never'),
    }
    Object.assign(process.env, environment)
    try {
      return await startTestService({ fronts: 1, ...(first && { continueFrom: first }), config: chainedConfig() })
    } finally {
      for (const variable of Object.keys(environment)) delete process.env[variable]
    }
  }

  const chainedConfig = () => ({
    server: { workers: 1 },
    ca: {
      backend: 'acme_proxy',
      acme_proxy: {
        directory_url: upstream.directoryUrl,
        email: 'pki@killed.test',
        storage_path: path.join(folder, 'storage'),
        challenge_type: 'http-01',
        challenge_handler: 'file_http',
        challenge_handler_config: { webroot: folder },
        trust_anchors: [upstream.ca.root],
      },
    },
  })

  const query = (of: TestService, text: string, values: unknown[] = []) =>
    withQuery(of.database.connection, (run) => run(text, values))
  const countOf = async (of: TestService, text: string, values: unknown[]) =>
    Number((await query(of, `SELECT count(*)::integer AS n FROM ${text}`, values))[0]?.['n'])

  for (const [index, step] of STEPS.entries()) {
    test(`${step}: the order ends valid, with one certificate here and upstream`, async () => {
      const name = nameOf(step)
      const ended = once(service.process, 'exit')
      responder.serve(name, client.thumbprint)
      const obtained = client.obtain(name)
      assert.deepEqual(await ended, [null, 'SIGKILL'])
      service = await start(STEPS[index + 1])
      const { leaf } = await obtained
      const named = [`{${name}}`]
      assert.equal(await countOf(service, 'certificates WHERE names = $1', named), 1)
      assert.equal(await countOf(upstream, 'certificates WHERE names = $1', named), 1)
      assert.equal(await countOf(upstream, 'certificates WHERE der = $1', [leaf.raw]), 1)
      const valid = "orders WHERE status = 'valid' AND identifiers @> $1::jsonb"
      assert.equal(await countOf(upstream, valid, [JSON.stringify([{ value: name }])]), 1)
    })
  }

  test('no order was given up, and nothing is left in the database or the challenge folder', async () => {
    assert.deepEqual(client.invalidOrders, [])
    assert.deepEqual(client.complaints, [])
    assert.equal(await countOf(service, 'csr_issuances', []), 0)
    assert.deepEqual(readdirSync(challenges()), [])
  })
})
