/**
 * kill -9 of the signer child while clients are busy: the service goes on, starts it again, and finishes what it left.
 *
 * Bound: what was under way is signed over the next connection, as soon as the new signer is ready. An issuance that loses
 * this too is repeated once its intent is older than `ca.signer.timeout_seconds` + 5 s, by a recovery round every 2 s;
 * with the 2 s of this test that is 9 s, and `BOUND_MS` allows for a busy machine.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkBooks } from '../support/books.ts'
import { assertNoComplaints, type Crowd, createMoments, startCrowd } from '../support/crowd.ts'
import { startTestService, type TestService } from '../support/service.ts'

const KILLS = 3
const BOUND_MS = 40_000
const RESTART_MS = 60_000

describe('kill -9 of the signer', () => {
  let service: TestService
  let crowd: Crowd
  before(async () => {
    service = await startTestService({ config: { ca: { signer: { timeout_seconds: 2 } } } })
    const { directoryUrl, http01Port } = service
    crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 240_000 })
  })
  after(async () => {
    await crowd?.close()
    await service?.dispose()
  })

  test('the service starts it again by itself and every order comes to its end', async () => {
    const moment = createMoments(200, 1500)
    for (let kill = 0; kill < KILLS; kill++) {
      await sleep(moment())
      const killed = service.signerPid()
      process.kill(killed, 'SIGKILL')
      await untilReplaced(killed)
    }
    await crowd.finish()

    assert.equal(service.process.exitCode, null, 'the service is still the same process')
    assertNoComplaints(crowd)
    const { connection } = service.database
    const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
    assert.equal(books.certificates, crowd.held.length)
    console.log(`${KILLS} kills, ${crowd.held.length} certificates held, books: ${JSON.stringify(books)}`)
  })

  async function untilReplaced(killed: number): Promise<void> {
    const deadline = performance.now() + RESTART_MS
    while (service.signerPid() === killed) {
      assert.ok(performance.now() < deadline, 'a new signer is ready in time')
      await sleep(20)
    }
  }
})
