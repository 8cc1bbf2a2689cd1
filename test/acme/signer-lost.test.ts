/**
 * A signer that dies after it has signed, before its answer has left, in a service with another CA behind it: the order
 * stays with the signer that may have issued, and ends in its time when that does not come back.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseAuditLine } from '../../signer/audit/line.ts'
import { makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { checkBooks } from '../support/books.ts'
import { readCrl } from '../support/crl.ts'
import { type ExternalCa, startExternalCa } from '../support/external-ca.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'

const DYING = fileURLToPath(new URL('../faults/die-at.js', import.meta.url))
/** The bound of the order, the age of an intent that is taken up, and a machine that is busy. */
const ENDED_MS = 120_000

describe('a signer that dies after it has signed', () => {
  let ca: ExternalCa
  let files: SignerFiles
  let daemon: Daemon
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let orders = 0

  before(async () => {
    ca = await startExternalCa()
    files = writeSignerFiles({ default: makeAuthority() }, '', '{ max_crl_validity_days: 2 }')
    // The name under which the books look for it.
    symlinkSync(files.auditFile, path.join(files.folder, 'signer-audit.jsonl'))
    daemon = await startDaemon(files.config)
    service = await startTestService({
      fronts: 1,
      config: {
        ca: {
          backend: 'failover',
          failover: { backends: ['internal', 'external'], probe_seconds: 1 },
          deferred_signing_timeout: 20,
          signer: { socket: files.socket, secret_file: path.join(files.folder, 'secret'), timeout_seconds: 2 },
          external: { sign_url: `${ca.url}/sign`, trust_anchors: [ca.rootFile] },
        },
        crl: { enabled: true },
        order: { finalize_wait_ms: 100 },
        // Its connections to the signer.
        logging: { level: 'DEBUG' },
      },
    })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    await daemon.stop()
    await ca.close()
    rmSync(files.folder, { recursive: true, force: true })
  })

  const signed = () =>
    readFileSync(files.auditFile, 'utf8')
      .trimEnd()
      .split('\n')
      .map(parseAuditLine)
      .flatMap((line) => (line?.method === 'signCertificate' ? [line.serial] : []))

  /** @returns the URL of an order whose certificate is signed, and nobody has it */
  async function lost(): Promise<{ url: string; serial: string }> {
    await daemon.stop()
    const connections = () => service.log.filter(({ message }) => message === 'signer connected').length
    const connectionsBefore = connections()
    daemon = await startDaemon(files.config, ['--import', DYING], { CHANCERY_TEST_DIE_AT: 'audit line written' })
    // Else the other CA would be asked first.
    await until('the front thread and the supervisor are connected', () => connections() >= connectionsBefore + 2)
    const ended = once(daemon.process, 'exit')
    const name = `order-${++orders}.test`
    const order = await client.newOrder([name])
    await client.authorize(order, responder)
    const csr = base64url(await aCsr(P256_KEY, { names: [{ type: 'dns', value: name }] }))
    const url = order.headers.location as string
    assert.equal((await client.post(order.json.finalize, { csr })).json.status, 'processing')
    assert.deepEqual(await ended, [null, 'SIGKILL'])
    await service.untilLogged(
      'the lost answer',
      ({ event, orderId }) => event === 'signing_failed' && orderId === url.split('/').at(-1),
    )
    return { url, serial: signed().at(-1) as string }
  }
  const statusOf = async (url: string) => (await client.post(url)).json.status
  const recorded = async (serial: string) =>
    (
      await withQuery(service.database.connection, (run) =>
        run('SELECT * FROM certificates WHERE serial_number = $1', [Buffer.from(serial, 'hex')]),
      )
    )[0]

  test('and comes back completes the order, and no other CA is asked', async () => {
    const { url, serial } = await lost()
    daemon = await startDaemon(files.config)
    await until('the order is valid', async () => (await statusOf(url)) === 'valid', ENDED_MS)
    const row = await recorded(serial)
    assert.deepEqual([row?.['backend'], row?.['revoked_at']], [null, null])
    assert.deepEqual(ca.requests, [])
  })

  test('and stays away fails the order in time with an alarm, and what it signed is revoked', async () => {
    const { url, serial } = await lost()
    await until('the order is invalid', async () => (await statusOf(url)) === 'invalid', ENDED_MS)
    const { json } = await client.post(url)
    assert.equal(json.error.detail, 'the CA did not issue the certificate in time')
    const alarm = await service.untilLogged(
      'the alarm',
      ({ event, orderId }) => event === 'alarm' && orderId === url.split('/').at(-1),
    )
    assert.equal(alarm['serialNumber'], serial)
    const row = await recorded(serial)
    assert.deepEqual([row?.['order_id'], row?.['revocation_reason']], [null, 5])
    assert.deepEqual(ca.requests, [], 'the order has stayed with the signer')

    daemon = await startDaemon(files.config)
    await until('its serial number is on the CRL', async () => {
      const { body } = await send({ method: 'GET', url: `${service.baseUrl}/crl/default` })
      return readCrl(body).entries.some((entry) => entry.serial === serial)
    })
    const { connection } = service.database
    await checkBooks({ connection, folder: files.folder, held: [], boundMs: 120_000 })
  })
})
