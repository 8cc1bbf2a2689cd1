/**
 * kill -9 of a service while an upstream order stands between each two of its steps: every order ends valid without the
 * client's help, with one certificate here and upstream, and nothing is finalized twice.
 */

import assert from 'node:assert/strict'
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { behindAcmeService } from '../support/cas/chained-service.ts'
import {
  type Http01Responder,
  startChallengeFolder,
  startHttp01Responder,
} from '../support/clients/http01-responder.ts'
import { rowsIn } from '../support/database.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PRELOADED = new URL('./hold-upstream-steps.js', import.meta.url).href

/** `hold-upstream-steps.ts` holds the order of the step's name there. */
const STEPS = [
  'after order',
  'after place',
  'after answer',
  'before finalize',
  'after finalize',
  'after clean',
  'after download',
]
const nameOf = (step: string) => `${step.replace(' ', '-')}.test`

describe('kill -9 between two steps of an upstream order', () => {
  const folder = temporaryFolder()
  let upstream: TestService
  let first: TestService
  let service: TestService
  let responder: Http01Responder
  let client: PersistentClient
  let closeWebServer: () => Promise<void>
  const obtained = new Map<string, Promise<HeldCertificate>>()
  const challenges = () => path.join(folder, '.well-known', 'acme-challenge')

  before(async () => {
    mkdirSync(challenges(), { recursive: true })
    upstream = await startTestService({ fronts: 1 })
    closeWebServer = await startChallengeFolder(upstream.http01Port, challenges())
    process.env['NODE_OPTIONS'] = `--import ${PRELOADED}`
    try {
      first = await startTestService({ fronts: 1, config: chainedConfig() })
    } finally {
      delete process.env['NODE_OPTIONS']
    }
    responder = await startHttp01Responder(first.http01Port)
    client = createPersistentClient({ directoryUrl: first.directoryUrl, timeoutMs: 7 * WAIT_MS })
    await client.register()
    for (const step of STEPS) {
      responder.serve(nameOf(step), client.thumbprint)
      obtained.set(step, client.obtain(nameOf(step)))
    }
    for (const step of STEPS)
      await first.untilLogged(step, (line) => line.message === 'step held' && line['step'] === step)
    await first.kill()
    service = await startTestService({ fronts: 1, continueFrom: first, config: chainedConfig() })
  })
  after(async () => {
    await responder?.close()
    await service?.dispose()
    await first?.dispose()
    await closeWebServer?.()
    await upstream?.dispose()
  })

  const chainedConfig = () => ({
    ca: behindAcmeService(upstream.directoryUrl, folder, { trust_anchors: [upstream.ca.root] }),
  })

  const query = (of: TestService, text: string, values: unknown[] = []) => rowsIn(of.database, text, values)
  const countOf = async (of: TestService, text: string, values: unknown[]) =>
    Number((await query(of, `SELECT count(*)::integer AS n FROM ${text}`, values))[0]?.['n'])

  for (const step of STEPS) {
    test(`${step}: the order ends valid, with one certificate here and upstream`, async () => {
      const { leaf } = (await obtained.get(step)) as HeldCertificate
      const named = [`{${nameOf(step)}}`]
      assert.equal(await countOf(service, 'certificates WHERE names = $1', named), 1)
      assert.equal(await countOf(upstream, 'certificates WHERE names = $1', named), 1)
      assert.equal(await countOf(upstream, 'certificates WHERE der = $1', [leaf.raw]), 1)
      const valid = "orders WHERE status = 'valid' AND identifiers @> $1::jsonb"
      assert.equal(await countOf(upstream, valid, [JSON.stringify([{ value: nameOf(step) }])]), 1)
    })
  }

  test('no order was given up, and nothing is left in the database or the challenge folder', async () => {
    assert.deepEqual(client.invalidOrders, [])
    assert.deepEqual(client.complaints, [])
    assert.equal(await countOf(service, 'csr_issuances', []), 0)
    assert.deepEqual(readdirSync(challenges()), [])
  })
})
