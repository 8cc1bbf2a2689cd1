/**
 * kill -9 of the service between any two steps of an external CA's issuance: the next start goes on where it stood, no
 * certificate is lost, and none is issued twice.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { type Behaviour, type CaRequest, type ExternalCa, startExternalCa } from '../support/external-ca.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'

interface Fault {
  name: string
  behaviour: Behaviour
  isDue(step: 'request' | 'answer', request: CaRequest): boolean
  idempotent: boolean
  ends: 'valid' | 'invalid'
}

const isPoll = ({ body }: CaRequest) => body.request_id !== undefined
/** In the order of `idempotent`, as each change costs a start. */
const FAULTS: readonly Fault[] = [
  {
    name: 'the CA has the request',
    behaviour: 'issue',
    idempotent: true,
    ends: 'valid',
    isDue: (step) => step === 'request',
  },
  {
    name: 'the certificate has left the CA',
    behaviour: 'issue',
    idempotent: true,
    ends: 'valid',
    isDue: (step) => step === 'answer',
  },
  {
    name: 'the promise has left the CA',
    behaviour: 'pending',
    idempotent: true,
    ends: 'valid',
    isDue: (step, request) => step === 'answer' && !isPoll(request),
  },
  {
    name: 'the CA has the request, and knows no idempotency keys',
    behaviour: 'issue',
    idempotent: false,
    ends: 'invalid',
    isDue: (step) => step === 'request',
  },
  {
    name: 'the CA is asked for what it has promised',
    behaviour: 'pending',
    idempotent: false,
    ends: 'valid',
    isDue: (step, request) => step === 'request' && isPoll(request),
  },
  {
    name: 'what was promised has left the CA',
    behaviour: 'pending',
    idempotent: false,
    ends: 'valid',
    isDue: (step, request) => step === 'answer' && isPoll(request),
  },
]

describe('kill -9 of the service between two steps of an external CA', () => {
  let ca: ExternalCa
  let first: TestService
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let isIdempotent = true

  const configured = (idempotent: boolean) => ({
    ca: {
      backend: 'external',
      external: { sign_url: `${ca.url}/sign`, trust_anchors: [ca.rootFile], idempotent },
      deferred_signing_timeout: 240,
    },
    order: { finalize_wait_ms: 500 },
  })

  before(async () => {
    ca = await startExternalCa()
    ca.rememberKeys()
    first = service = await startTestService({ fronts: 1, config: configured(true) })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
    // Nobody delivers to it, so its events can be read.
    await query(`INSERT INTO event_consumers (name, kinds) VALUES ('reader', '{order.recovered}')`)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    if (service !== first) await first?.dispose()
    await ca?.close()
  })

  const query = (text: string, values: unknown[] = []) =>
    withQuery(service.database.connection, (run) => run(text, values))

  for (const [index, { name, behaviour, isDue, idempotent, ends }] of FAULTS.entries())
    test(`${name}: the order ends ${ends}`, async () => {
      if (idempotent !== isIdempotent) {
        await service.stop()
        service = await startTestService({ fronts: 1, continueFrom: first, config: configured(idempotent) })
        isIdempotent = idempotent
      }
      const host = `kill-${index}.test`
      const order = await client.newOrder([host])
      await client.authorize(order, responder)
      const csr = await aCsr(P256_KEY, { names: [{ type: 'dns', value: host }] })
      ca.behave(behaviour)
      const killed = new Promise<void>((resolve) => {
        ca.onStep = (step, request) => {
          if (!isDue(step, request)) return
          ca.onStep = undefined
          resolve(service.kill())
        }
      })
      // Its reply may be lost with the service.
      await client.post(order.json.finalize, { csr: base64url(csr) }).catch(() => undefined)
      await killed
      // An answer that has left the CA may have been recorded before the signal came; then no step was interrupted.
      const [interrupted] = await query('SELECT FROM csr_issuances WHERE is_running')
      service = await startTestService({ fronts: 1, continueFrom: first, config: configured(idempotent) })

      const url = order.headers.location as string
      const ended = await client.settled(url)
      assert.equal(ended.json.status, ends)
      const certificates = await query('SELECT der FROM certificates WHERE order_id = $1', [url.split('/').at(-1)])
      assert.equal(certificates.length, ends === 'valid' ? 1 : 0)
      assert.deepEqual(await query('SELECT FROM csr_issuances'), [])
      const leaves = ca.issued.filter((pem) => new X509Certificate(pem).subjectAltName === `DNS:${host}`)
      assert.equal(leaves.length, 1, 'issued once')
      const recovered = () => query('SELECT FROM event_deliveries WHERE subject = $1', [url.split('/').at(-1)])
      if (ends === 'valid' && interrupted)
        await until('the order is told of as recovered', async () => (await recovered()).length === 1)
      else assert.deepEqual(await recovered(), [])
      if (ends === 'invalid')
        await service.untilLogged(
          'an alarm',
          (line) => line['event'] === 'alarm' && /may have issued/.test(line.message),
        )
    })
})
