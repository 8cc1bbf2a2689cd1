/**
 * A whole service with `ca.backend: hsm`: certificates from the token, readiness that follows the token, and a library that
 * crashes the signer under load.
 */

import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import { checkBooks } from '../support/books.ts'
import { assertNoComplaints, startCrowd } from '../support/crowd.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { buildFaultyLibrary, type FaultyLibrary, makeToken, PIN, type TestToken } from '../support/softhsm.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requireCommand('g++'), requirePackage('graphene-pk11'))

const BOUND_MS = 120_000
const CRASHES = 3

describe('a service whose key is in a token', NEEDS, () => {
  let token: TestToken
  let faults: FaultyLibrary
  let caFolder: string
  let service: TestService
  before(async () => {
    token = makeToken()
    faults = buildFaultyLibrary(token)
    // What the vendor's library reads from the environment reaches the signer through the service.
    Object.assign(process.env, token.env, faults.env)
    caFolder = mkdtempSync(path.join(tmpdir(), 'hsm-ca-'))
    const { files } = await ensureDevCa(caFolder, new Date())
    token.importKey(createPrivateKey(readFileSync(files.intermediateKey)), 'issuing', '01a2')
    rmSync(files.intermediateKey)
    service = await startTestService({
      fronts: 1,
      config: {
        ca: {
          backend: 'hsm',
          signer: { timeout_seconds: 2 },
          hsm: {
            pkcs11_library: faults.file,
            token_label: 'ca',
            pin: PIN,
            key_label: 'issuing',
            key_id: '01a2',
            key_type: 'ec',
            issuer_cert_path: files.intermediate,
            chain_path: files.root,
            serial_source: 'database',
            session_pool_size: 8,
          },
        },
      },
    })
  })
  after(async () => {
    await service?.dispose()
    rmSync(caFolder, { recursive: true, force: true })
    token.remove()
  })

  const get = async (place: string) => {
    const response = await fetch(`${service.baseUrl}${place}`)
    return { status: response.status, body: (await response.json()) as Record<string, never> }
  }

  async function untilReady(status: number): Promise<void> {
    for (const deadline = performance.now() + BOUND_MS; (await get('/readyz')).status !== status; await sleep(100)) {
      assert.ok(performance.now() < deadline, `/readyz answers ${status} in time`)
    }
  }

  test('shows the token in its health', async () => {
    const { status, body } = await get('/healthz')
    assert.equal(status, 200)
    const { ca_backend: backend } = body['checks'] as unknown as {
      ca_backend: { status: string; tokens: { status: string }[] }
    }
    assert.equal(backend.status, 'ok')
    assert.deepEqual(
      backend.tokens.map((token) => token.status),
      ['ready'],
    )
  })

  test('is not ready while the token is away, and ready again when it is back, in the same processes', async () => {
    const pid = service.signerPid()
    faults.set('removed')
    await untilReady(503)
    assert.equal((await get('/readyz')).body['reason'], 'CA backend unavailable')
    // A signature can fail a moment before the token is known to be away.
    const isSaid = async () =>
      /"status":"error","tokens":\[.*"status":"away"/.test(JSON.stringify((await get('/healthz')).body))
    for (const deadline = performance.now() + BOUND_MS; !(await isSaid()); await sleep(100)) {
      assert.ok(performance.now() < deadline, '/healthz says that the token is away in time')
    }
    assert.equal((await get('/livez')).status, 200)
    faults.clear('removed')
    await untilReady(200)
    assert.equal(service.signerPid(), pid)
  })

  test('whose library crashes under load goes on, starts the signer again and completes every order', async () => {
    const { directoryUrl, http01Port } = service
    const crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 300_000 })
    try {
      for (let crash = 0; crash < CRASHES; crash++) {
        await sleep(700)
        const pid = service.signerPid()
        faults.set('crash')
        for (const deadline = performance.now() + BOUND_MS; service.signerPid() === pid; await sleep(20)) {
          assert.ok(performance.now() < deadline, 'a new signer is ready in time')
        }
      }
      await crowd.finish()
      assertNoComplaints(crowd)
      const { connection } = service.database
      const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
      assert.equal(books.certificates, crowd.held.length)
      assert.equal(service.process.exitCode, null)
    } finally {
      await crowd.close()
    }
  })

  test('leaves a signer alone that a token has refused, and says so', async () => {
    faults.set('last-try')
    process.kill(service.signerPid(), 'SIGKILL')
    const { reason } = await service.waitForLog('the signer is not started again', BOUND_MS)
    assert.match(String(reason), /one attempt left/)
    await untilReady(503)
    const logins = faults.logins()
    await sleep(1000)
    assert.equal(faults.logins(), logins)
    assert.doesNotMatch(JSON.stringify(service.log), new RegExp(PIN))
  })
})
