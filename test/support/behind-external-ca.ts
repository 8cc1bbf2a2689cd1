/** A service whose certificates an external CA issues, its CA and a client, for the tests of one description. */

import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'
import {
  type AcmeClient,
  type Answer,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  startResponder,
} from './acme-client.ts'
import { rowsIn } from './database.ts'
import { type ExternalCa, type ExternalCaOptions, startExternalCa } from './external-ca.ts'
import { startTestService, type TestService } from './service.ts'

/** All requests are for one key, so that a certificate of an earlier order may pass for a later one's. */
export const csrFor = (name: string) => aCsr(P256_KEY, { names: [{ type: 'dns', value: name }] })
export const CREDENTIAL = 'credential-of-the-test'

let orders = 0

/**
 * @param sections members of `ca.external`, and further ones of `ca`
 * @param options with what is configured beside `ca`, and whether the CA is away at the start
 */
export function aServiceBehindACa(
  { external = {}, ...sections }: Record<string, unknown>,
  {
    config = {},
    isAway = false,
    ...options
  }: ExternalCaOptions & { config?: Record<string, unknown>; isAway?: boolean } = {},
) {
  let ca: ExternalCa
  let service: TestService
  let responder: Responder
  let client: AcmeClient

  const wholeConfig = () => ({
    ca: {
      backend: 'external',
      external: {
        sign_url: `${ca.url}/sign`,
        revoke_url: `${ca.url}/revoke`,
        trust_anchors: [ca.rootFile],
        auth_header: 'X-Api-Key',
        auth_value: CREDENTIAL,
        ...(external as object),
      },
      // The misbehaviour of one test must not keep the CA from the next.
      circuit_breaker_failure_threshold: 1000,
      ...sections,
    },
    ...config,
  })

  before(async () => {
    ca = await startExternalCa(options)
    if (isAway) await ca.stop()
    service = await startTestService({ fronts: 1, config: wholeConfig() })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    await ca?.close()
  })

  const query = (text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  async function ready(wanted: object = {}): Promise<{ order: Answer; name: string }> {
    const name = `order-${++orders}.test`
    const order = await client.newOrder([name], wanted)
    assert.equal(order.status, 201, order.text)
    await client.authorize(order, responder)
    return { order, name }
  }

  /** @param wanted further members of the new order */
  async function finalized(wanted: object = {}): Promise<{ order: Answer; name: string; url: string }> {
    const { order, name } = await ready(wanted)
    const csr = await csrFor(name)
    const reply = await client.post(order.json.finalize, { csr: base64url(csr) })
    assert.equal(reply.status, 200, reply.text)
    const url = order.headers.location as string
    return { order: await client.settled(url), name, url }
  }

  const certificatesOf = (url: string) =>
    query('SELECT * FROM certificates WHERE order_id = $1', [url.split('/').at(-1)])

  return {
    ca: () => ca,
    config: wholeConfig,
    service: () => service,
    client: () => client,
    responder: () => responder,
    query,
    ready,
    finalized,
    certificatesOf,
  }
}
