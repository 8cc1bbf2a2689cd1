/** What a front does around ACME, which is a stand-in here that refuses everything. */

import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { pino } from 'pino'
import type { AcmeApplication } from '../../../src/acme/application.ts'
import type { HttpReply, HttpRequest } from '../../../src/http/message.ts'
import { HoldingPen } from '../../../src/lib/holding-pen.ts'
import { createFront } from '../../../src/main/front/front.ts'
import { createMetrics } from '../../../src/ops/metrics.ts'
import { createAdmission } from '../../../src/services/admission.ts'
import { createPatience } from '../../../src/services/patience.ts'

const ADDRESS = '192.0.2.1'
const REFUSED: HttpReply = { status: 400, headers: [], body: 'refused' }
const nothing = () => undefined

function aFront(capacity: number) {
  const acme: AcmeApplication = {
    match: () => ({ resource: 'newOrder', id: '', url: '' }),
    handle: () => Promise.resolve(REFUSED),
    problem: ({ status }) => ({ ...REFUSED, status }),
    notFound: () => ({ ...REFUSED, status: 404 }),
  }
  const patience = createPatience(true, { exhausted: nothing, refused: nothing })
  const heldBack = new HoldingPen<HttpReply>({ holdMs: 5000, capacity })
  const front = createFront({
    acme,
    board: { admission: () => 'none' },
    admission: createAdmission(500, { begun: nothing, ended: nothing, turnedAway: nothing }),
    patience,
    late: new HoldingPen({ holdMs: 2000, capacity }),
    heldBack,
    metrics: createMetrics(),
    log: pino({ level: 'silent' }),
    version: '0',
    proxy: { enabled: false, trustedProxies: [], forwardedForHeader: '', forwardedProtoHeader: '' },
    scheme: 'http',
    securityHeaders: { http: [], https: [] },
    metricsPath: nothing,
    health: () => assert.fail('nobody asks'),
    crl: undefined,
    exposition: () => assert.fail('nobody asks'),
  })
  return { front, patience, heldBack }
}

function aRequest() {
  const dropBody = mock.fn()
  const http: HttpRequest = {
    ...{ method: 'POST', path: '/new-order', query: '', body: Buffer.alloc(60_000), peerAddress: ADDRESS },
    header: nothing,
    dropBody,
  }
  return { http, dropBody }
}

describe('an answer to an address that has wasted too much', () => {
  test('waits, and does not keep what it answers', async () => {
    const { front, patience, heldBack } = aFront(2)
    patience.wasted(ADDRESS, 1000)
    const { http, dropBody } = aRequest()
    const reply = front.handle(http)
    while (heldBack.size === 0) await new Promise(setImmediate)
    assert.equal(dropBody.mock.callCount(), 1)
    heldBack.release()
    assert.deepEqual(await reply, REFUSED)
  })

  test('ends the connection where too many wait already', async () => {
    const { front, patience } = aFront(0)
    patience.wasted(ADDRESS, 1000)
    assert.deepEqual(await front.handle(aRequest().http), { ...REFUSED, closes: true })
  })

  test('is prompt for others, whose body stays until the reply', async () => {
    const { front, patience } = aFront(2)
    patience.wasted('192.0.2.2', 1000)
    const { http, dropBody } = aRequest()
    assert.deepEqual(await front.handle(http), REFUSED)
    assert.equal(dropBody.mock.callCount(), 0)
  })
})
