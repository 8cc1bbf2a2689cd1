/** CRLs of several instances on one database: the same bytes everywhere, whoever builds them; schedule and staleness. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const fetchCrl = async ({ baseUrl }: TestService) => {
  const answer = await send({ method: 'GET', url: `${baseUrl}/crl` })
  return { ...answer, crl: answer.status === 200 ? readCrl(answer.body) : undefined }
}

describe('two instances', () => {
  let first: TestService
  let second: TestService
  let responder: Responder
  let client: AcmeClient
  const config = { crl: { enabled: true }, nonce: { store: 'database' } }
  before(async () => {
    first = await startTestService({ fronts: 1, config })
    // Both sign with the CA of the first, as two hosts with one signer do.
    const ca = {
      internal: {
        root_cert_path: first.ca.intermediate,
        root_key_path: first.ca.intermediateKey,
        chain_path: first.ca.root,
      },
    }
    second = await startTestService({ fronts: 1, config: { ...config, ca }, beside: first })
    responder = await startResponder(second.http01Port)
    client = await registeredClient(second.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await second.dispose()
    await first.dispose()
  })

  const revoke = async (name: string) => {
    const { der } = await client.obtain([name], responder)
    const answer = await client.post(client.directory['revokeCert'] as string, { certificate: base64url(der) })
    assert.equal(answer.status, 200)
    return new X509Certificate(der).serialNumber.toLowerCase()
  }

  const listedAt = (service: TestService, serial: string) =>
    until(`${serial} is listed`, async () => {
      const answer = await fetchCrl(service)
      return answer.crl?.entries.some((entry) => entry.serial === serial) && answer
    })

  test('serve the same bytes under the same tag', async () => {
    const serial = await revoke('both.test')
    await Promise.all([listedAt(first, serial), listedAt(second, serial)])
    // A revocation that comes while a list is built has another one follow, which one of them may have a second before the other.
    const [one, other] = await until('both serve the same list', async () => {
      const answers = await Promise.all([fetchCrl(first), fetchCrl(second)])
      return answers[0].headers.etag === answers[1].headers.etag && answers
    })
    assert.deepEqual(one.body, other.body)
  })

  test('when one is killed, the other builds', async () => {
    const { crl } = await fetchCrl(first)
    await first.kill()
    const serial = await revoke('left.test')
    const answer = await listedAt(second, serial)
    assert.ok(answer.crl!.number > crl!.number)
  })
})
