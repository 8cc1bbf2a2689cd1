/**
 * Failover under load: the token is taken away and brought back while orders run, twice. No order fails, and the books of both
 * backends agree with the database: each certificate stands there once, with the backend that issued it.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { checkBooks } from '../support/books.ts'
import { type ExternalCa, startExternalCa } from '../support/cas/external-ca.ts'
import { assertNoComplaints, type Crowd, startCrowd } from '../support/clients/crowd.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { type ServiceToken, serviceToken } from './support.ts'

const NEEDS = requireAll(
  requireCommand('softhsm2-util'),
  requireCommand('g++'),
  requireCommand('openssl'),
  requirePackage('graphene-pk11'),
)
const BOUND_MS = 120_000
/** Certificates of a backend before the next change. */
const EACH = 12

describe('a service with a token and another CA behind it', NEEDS, () => {
  let token: ServiceToken
  let external: ExternalCa
  let service: TestService
  let crowd: Crowd

  before(async () => {
    token = await serviceToken()
    external = await startExternalCa()
    service = await startTestService({
      fronts: 1,
      config: {
        ca: {
          backend: 'failover',
          failover: { backends: ['hsm', 'external'], probe_seconds: 1 },
          circuit_breaker_recovery_timeout: 2,
          signer: { timeout_seconds: 5 },
          hsm: token.hsm,
          external: { sign_url: `${external.url}/sign`, trust_anchors: [external.rootFile] },
        },
      },
    })
    const { directoryUrl, http01Port } = service
    crowd = await startCrowd({ directoryUrl, http01Port, accounts: 2, ordersAtOnce: 4, timeoutMs: 300_000 })
  })
  after(async () => {
    await crowd?.close()
    await service?.dispose()
    await external?.close()
    token.remove()
  })

  /** Serial numbers in the database. */
  const recorded = async (backend: string | null) => {
    const rows = await withQuery(service.database.connection, (run) =>
      run("SELECT encode(serial_number, 'hex') AS serial FROM certificates WHERE backend IS NOT DISTINCT FROM $1", [
        backend,
      ]),
    )
    return rows.map(({ serial }) => String(serial))
  }
  async function untilMoreOf(backend: string | null): Promise<void> {
    const wanted = (await recorded(backend)).length + EACH
    await until(`certificates of ${backend ?? 'the token'}`, async () => (await recorded(backend)).length >= wanted)
  }

  test('the other CA issues while the token is away, the token when it is back, and no order fails', async () => {
    await untilMoreOf(null)
    for (let times = 0; times < 2; times++) {
      token.faults.set('removed')
      await untilMoreOf('external')
      token.faults.clear('removed')
      await untilMoreOf(null)
    }
    await crowd.finish()
    assertNoComplaints(crowd)
    assert.deepEqual(
      crowd.clients.flatMap(({ invalidOrders }) => invalidOrders),
      [],
    )
    assert.deepEqual(
      crowd.clients.map(({ unavailable }) => unavailable),
      [0, 0],
      'nobody was sent away',
    )
  })

  test('the books of both backends agree with the database, and with what the clients hold', async () => {
    const { connection } = service.database
    // Of the token's signatures, too: each stands in the signer's audit chain, and is recorded once.
    const books = await checkBooks({ connection, folder: service.folder, held: crowd.held, boundMs: BOUND_MS })
    const [ofToken, ofExternal] = [await recorded(null), await recorded('external')]
    assert.equal(books.certificates, crowd.held.length)
    assert.equal(ofToken.length + ofExternal.length, crowd.held.length, 'each has one of the two backends')
    const issued = external.issued.map((pem) => new X509Certificate(pem).serialNumber.toLowerCase())
    assert.deepEqual(ofExternal.toSorted(), issued.toSorted())
    assert.deepEqual(external.revoked, [])
  })
})
