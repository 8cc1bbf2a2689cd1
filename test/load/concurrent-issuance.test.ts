/** Two hundred issuances at once through the whole service (RFC 8555 §7.1: account, order, challenge, finalize, download). */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createPersistentClient, type PersistentClient } from '../../bench/client/persistent-client.ts'
import { checkBooks } from '../support/books.ts'
import { type Http01Responder, startHttp01Responder } from '../support/http01-responder.ts'
import { startTestService, type TestService } from '../support/service.ts'

const ACCOUNTS = 8
const ORDERS_PER_ACCOUNT = 25
const TIMEOUT_MS = 240_000
const BOUND_MS = 120_000

describe('concurrent issuance', () => {
  let service: TestService
  let responder: Http01Responder
  let clients: PersistentClient[]
  before(async () => {
    service = await startTestService()
    responder = await startHttp01Responder(service.http01Port)
    clients = Array.from({ length: ACCOUNTS }, () =>
      createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: TIMEOUT_MS }),
    )
  })
  after(async () => {
    await responder.close()
    await service.dispose()
  })

  test(`${ACCOUNTS * ORDERS_PER_ACCOUNT} orders at once all end in one certificate each, recorded and signed once`, async () => {
    await Promise.all(clients.map((client) => client.register()))
    const issuances = clients.flatMap((client, account) =>
      Array.from({ length: ORDERS_PER_ACCOUNT }, (_, i) => {
        const name = `load-${account}-${i}.test`
        responder.serve(name, client.thumbprint)
        return client.obtain(name)
      }),
    )
    const held = await Promise.all(issuances)

    assert.deepEqual(
      clients.flatMap(({ complaints }) => complaints),
      [],
    )
    assert.deepEqual(
      clients.flatMap(({ invalidOrders }) => invalidOrders),
      [],
    )
    assert.equal(new Set(held.map(({ leaf }) => leaf.serialNumber)).size, held.length)
    for (const { name, leaf } of held) assert.equal(leaf.subjectAltName, `DNS:${name}`)

    const { connection } = service.database
    const books = await checkBooks({ connection, folder: service.folder, held, boundMs: BOUND_MS })
    const count = ACCOUNTS * ORDERS_PER_ACCOUNT
    assert.deepEqual(books, { orders: { valid: count }, certificates: count, signatures: count })
  })
})
