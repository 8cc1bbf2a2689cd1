/**
 * kill -9 of the service process, with all its threads, while clients are busy (ARCHITECTURE.md, life of an issuance).
 *
 * Bound: what the dead process left is finished within `BOUND_MS` of its successor being ready. The first rounds of
 * recovery and challenge adoption run as it starts, and again every two seconds; the rest is for a busy machine.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkBooks } from '../support/books.ts'
import { assertNoComplaints, type Crowd, createMoments, startCrowd } from '../support/crowd.ts'
import { startTestService, type TestService } from '../support/service.ts'

const KILLS = 3
const BOUND_MS = 60_000

describe('kill -9 of the service', () => {
  let first: TestService
  let service: TestService
  let crowd: Crowd
  before(async () => {
    first = await startTestService()
    service = first
    const { directoryUrl, http01Port } = service
    crowd = await startCrowd({ directoryUrl, http01Port, accounts: 4, ordersAtOnce: 12, timeoutMs: 240_000 })
  })
  after(async () => {
    await crowd?.close()
    await service?.dispose()
    await first?.dispose()
  })

  test('leaves no order stuck, no certificate unknown, and clients that go on get theirs', async () => {
    const moment = createMoments(200, 1500)
    for (let kill = 0; kill < KILLS; kill++) {
      await sleep(moment())
      await service.kill()
      service = await startTestService({ continueFrom: service })
    }
    await crowd.finish()

    assertNoComplaints(crowd)
    const { connection } = service.database
    const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
    assert.ok(books.certificates >= crowd.held.length)
    console.log(`${KILLS} kills, ${crowd.held.length} certificates held, books: ${JSON.stringify(books)}`)
  })
})
