/**
 * kill -9 of the service while issuances by an external CA stand between each two of their steps: the next start goes on
 * where they stood, no certificate is lost, and none is issued twice.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { base64url } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { type Behaviour, type ExternalCa, startExternalCa } from '../support/cas/external-ca.ts'
import { rowsIn } from '../support/database.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'

interface Fault {
  name: string
  behaviour: Behaviour
  /** Of the request to sign, or of the one for what was promised. */
  isPoll: boolean
  heldAt: 'request' | 'answer'
  ends: 'valid' | 'invalid'
}

/** By `ca.external.idempotent` of the start after the kill, which alone asks again. */
const FAULTS: readonly [idempotent: boolean, faults: readonly Fault[]][] = [
  [
    true,
    [
      { name: 'the CA has the request', behaviour: 'issue', isPoll: false, heldAt: 'request', ends: 'valid' },
      { name: 'the CA has issued', behaviour: 'issue', isPoll: false, heldAt: 'answer', ends: 'valid' },
      { name: 'the CA has promised', behaviour: 'pending', isPoll: false, heldAt: 'answer', ends: 'valid' },
    ],
  ],
  [
    false,
    [
      {
        name: 'the CA has the request, and knows no idempotency keys',
        behaviour: 'issue',
        isPoll: false,
        heldAt: 'request',
        ends: 'invalid',
      },
      {
        name: 'the CA is asked for what it has promised',
        behaviour: 'pending',
        isPoll: true,
        heldAt: 'request',
        ends: 'valid',
      },
      {
        name: 'the CA has issued what it promised',
        behaviour: 'pending',
        isPoll: true,
        heldAt: 'answer',
        ends: 'valid',
      },
    ],
  ],
]

describe('kill -9 of the service between two steps of an external CA', () => {
  let ca: ExternalCa

  const configured = (idempotent: boolean) => ({
    ca: {
      backend: 'external',
      external: { sign_url: `${ca.url}/sign`, trust_anchors: [ca.rootFile], idempotent, timeout_seconds: 300 },
      deferred_signing_timeout: 600,
    },
    order: { finalize_wait_ms: 0 },
  })

  before(async () => {
    ca = await startExternalCa()
    ca.rememberKeys()
  })
  const { service, responder, client, again } = restartedScene(() => ({ fronts: 1, config: configured(true) }))
  // Nobody delivers to it, so its events can be read.
  before(() => query(`INSERT INTO event_consumers (name, kinds) VALUES ('reader', '{order.recovered}')`))
  after(() => ca?.close())

  const query = (text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  const hostOf = ({ name }: Fault) => `${name.replaceAll(/\W+/g, '-').toLowerCase()}.test`

  /** @returns the order's URL, once its issuance stands still at the CA */
  async function untilHeld(fault: Fault): Promise<string> {
    const order = await client.newOrder([hostOf(fault)])
    await client.authorize(order, responder)
    const csr = await aCsr(P256_KEY, { names: [{ type: 'dns', value: hostOf(fault) }] })
    let isHeld = false
    let key: unknown
    const before = ca.holdAt
    ca.holdAt = (request) => {
      const { request_id, idempotency_key, identifiers } = request.body
      if (identifiers?.[0]?.value === hostOf(fault)) key = idempotency_key
      if (idempotency_key !== key || (request_id !== undefined) !== fault.isPoll) return before?.(request)
      isHeld = true
      return fault.heldAt
    }
    ca.behave(fault.behaviour)
    await client.post(order.json.finalize, { csr: base64url(csr) })
    await until(fault.name, () => isHeld)
    return order.headers.location as string
  }

  for (const [idempotent, faults] of FAULTS)
    describe(idempotent ? 'that knows idempotency keys' : 'that knows none', () => {
      const urls = new Map<Fault, string>()
      before(async () => {
        for (const fault of faults) urls.set(fault, await untilHeld(fault))
        await service.kill()
        ca.behave('issue')
        ca.release()
        await again({ config: configured(idempotent) })
      })

      for (const fault of faults)
        test(`${fault.name}: the order ends ${fault.ends}`, async () => {
          const url = urls.get(fault) as string
          const ended = await client.settled(url)
          assert.equal(ended.json.status, fault.ends)
          const id = url.split('/').at(-1)
          const certificates = await query('SELECT der FROM certificates WHERE order_id = $1', [id])
          assert.equal(certificates.length, fault.ends === 'valid' ? 1 : 0)
          const leaves = ca.issued.filter((pem) => new X509Certificate(pem).subjectAltName === `DNS:${hostOf(fault)}`)
          assert.equal(leaves.length, 1, 'issued once')
          const recovered = () => query('SELECT FROM event_deliveries WHERE subject = $1', [id])
          if (fault.ends === 'valid')
            await until('the order is told of as recovered', async () => (await recovered()).length === 1)
          else {
            assert.deepEqual(await recovered(), [])
            await service.untilLogged(
              'an alarm',
              (line) => line['event'] === 'alarm' && /may have issued/.test(line.message),
            )
          }
        })

      test('nothing is left to issue', async () => assert.deepEqual(await query('SELECT FROM csr_issuances'), []))
    })
})
