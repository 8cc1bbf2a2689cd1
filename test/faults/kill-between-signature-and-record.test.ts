/**
 * kill -9 of the service between the signature and its record: recovery issues the same TBSCertificate, and the log says of it
 * what it says of any other certificate.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { parseAuditLine } from '../../signer/audit/line.ts'
import { closeConnections } from '../support/acme-client.ts'
import { rowsIn } from '../support/database.ts'
import { type Http01Responder, startHttp01Responder } from '../support/http01-responder.ts'
import { withQuery } from '../support/revoked.ts'
import { type LogLine, startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('kill -9 of the service between signature and record', () => {
  let first: TestService
  let service: TestService
  let responder: Http01Responder
  let client: PersistentClient
  before(async () => {
    first = await startTestService({ fronts: 1 })
    service = first
    responder = await startHttp01Responder(service.http01Port)
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 240_000 })
    await client.register()
    for (const name of ['usual.test', 'recovered.test']) responder.serve(name, client.thumbprint)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    await first?.dispose()
  })

  const signatures = () =>
    readFileSync(path.join(service.folder, 'signer-audit.jsonl'), 'utf8')
      .split('\n')
      .filter((line) => line.includes('"method":"signCertificate"'))
      .map((line) => parseAuditLine(line))

  /** Of one order, by any process. */
  const issuedLines = (log: readonly LogLine[], { orderId }: HeldCertificate) =>
    log.filter((line) => line['event'] === 'certificate_issued' && line['orderId'] === orderId)

  /** Orders a certificate whose record waits behind a lock; kills the service when the signature is in the audit chain. */
  async function killBeforeRecord(name: string): Promise<HeldCertificate> {
    const before = signatures().length
    const { connection } = service.database
    const held = await withQuery(connection, async (run) => {
      await run('BEGIN')
      await run('LOCK TABLE certificates IN SHARE MODE')
      const obtaining = client.obtain(name)
      await until('the signature', () => signatures().length > before)
      await until('the record, waiting', async () => {
        // By another connection: within a transaction pg_stat_activity stays as it was at the first look.
        const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return (await rowsIn(service.database, waiting)).length > 0
      })
      await service.kill()
      // What waits for a lock does not notice that its client is gone, and would commit.
      await rowsIn(
        service.database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'chancery' AND datname = current_database()",
      )
      await run('ROLLBACK')
      return { obtaining }
    })
    service = await startTestService({ fronts: 1, continueFrom: service })
    return held.obtaining
  }

  test('the certificate has one line in the log, with the members of any other', async () => {
    const usual = await client.obtain('usual.test')
    const [usualLine] = await until('the line of a certificate', () => {
      const lines = issuedLines(first.log, usual)
      return lines.length > 0 && lines
    })
    const recovered = await killBeforeRecord('recovered.test')
    await service.untilLogged('the recovery', ({ outcome }) => outcome === 'recorded')

    const lines = [...first.log, ...service.log].filter((line) => issuedLines([line], recovered).length > 0)
    assert.equal(lines.length, 1)
    const [line] = lines
    assert.deepEqual(Object.keys(line as object).sort(), Object.keys(usualLine as object).sort())
    assert.equal(line?.level, usualLine?.level)
    assert.equal(line?.['accountId'], usualLine?.['accountId'])
    assert.deepEqual(line?.['names'], ['recovered.test'])
    const [row] = await withQuery(service.database.connection, (run) =>
      run("SELECT id, encode(serial_number, 'hex') AS serial FROM certificates WHERE order_id = $1", [
        recovered.orderId,
      ]),
    )
    assert.deepEqual([line?.['id'], line?.['serialNumber']], [row?.['id'], row?.['serial']])
    const signed = signatures().filter((signature) => signature?.serial === line?.['serialNumber'])
    assert.equal(signed.length, 1, 'recovery gets the signature that the process that died had asked for')
  })
})
