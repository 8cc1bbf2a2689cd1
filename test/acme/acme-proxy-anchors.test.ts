/** `ca.acme_proxy.trust_anchors`: what an upstream issues under another root reaches nobody, and is revoked there. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { makeAuthority } from '../signer/authority.ts'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { type ChainedServices, startChainedServices } from '../support/chained-service.ts'
import { withQuery } from '../support/revoked.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('an upstream whose root is none of the trust_anchors', () => {
  let chained: ChainedServices
  let upstream: TestService
  let service: TestService
  let responder: Responder
  let client: AcmeClient

  before(async () => {
    chained = await startChainedServices({ anchorPem: makeAuthority().certificatePem })
    ;({ upstream, service } = chained)
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await chained?.dispose()
  })

  const query = (of: TestService, text: string) => withQuery(of.database.connection, (run) => run(text))

  test('the order fails with an alarm, the client learns nothing, and the certificate is revoked upstream', async () => {
    const order = await client.newOrder(['anchored.test'])
    await client.authorize(order, responder)
    await client.post(order.json.finalize, { csr: await csrFor(['anchored.test']) })
    const ended = await client.settled(locationOf(order))
    assert.equal(ended.json.status, 'invalid')
    assert.equal(ended.json.error.detail, 'the CA did not issue the certificate that was asked for')
    assert.deepEqual(await query(service, 'SELECT FROM certificates'), [])
    const alarm = await service.untilLogged('an alarm', ({ event }) => event === 'alarm')
    assert.match(JSON.stringify(alarm), /does not end at one of the trust_anchors/)
    await until('its revocation', async () => {
      const rows = await query(upstream, 'SELECT revoked_at IS NOT NULL AS revoked FROM certificates')
      assert.equal(rows.length, 1)
      return rows[0]?.['revoked'] === true
    })
    await until(
      'no open revocation',
      async () => (await query(service, 'SELECT FROM backend_revocations')).length === 0,
    )
  })
})
