/**
 * kill -9 of the service between a certificate's signature and its record, and in the middle of a CRL build; then of the
 * signer in the middle of another. The certificate is recorded once, as it was signed; the old list is served meanwhile, a new
 * one with a higher number and every entry follows, and nothing of a broken build is left.
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
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { send } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { type Http01Responder, startHttp01Responder } from '../support/clients/http01-responder.ts'
import { type ReadCrl, readCrl } from '../support/crl.ts'
import { rowsIn } from '../support/database.ts'
import { WAIT_MS } from '../support/patience.ts'
import { insertRevoked, withQuery } from '../support/revoked.ts'
import type { LogLine } from '../support/service.ts'
import { until } from '../support/until.ts'

const ENTRIES = 40_000
/** Of a build of this size a third is in the middle. */
const PIECES_BEFORE_KILL = 3

describe('kill -9 halfway', () => {
  let responder: Http01Responder
  let client: PersistentClient
  /** Before the kill, as any other; and over the kill. */
  let usual: HeldCertificate
  let recovered: HeldCertificate
  /** Numbers of the list that was served at the kill, and of the one that was being built. */
  let served: bigint
  let broken: string
  // An issuance that was interrupted is taken up when its intent is a little older than this.
  const config = { crl: { enabled: true }, ca: { signer: { timeout_seconds: 5 } } }
  const { service, first, again } = restartedScene(() => ({ fronts: 1, config }))
  before(async () => {
    responder = await startHttp01Responder(service.http01Port)
    client = createPersistentClient({ directoryUrl: service.directoryUrl, timeoutMs: 4 * WAIT_MS })
    await client.register()
    for (const name of ['usual.test', 'recovered.test']) responder.serve(name, client.thumbprint)
    usual = await client.obtain('usual.test')
    await until('the line of a certificate', () => issuedLines(first.log, usual).length > 0)
    served = (await list()).number
    const { obtaining } = await withoutPublication(async () => {
      await addRevoked(ENTRIES)
      broken = await untilBuilding()
      return killBeforeRecord('recovered.test')
    })
    const [unchanged] = await query('SELECT number FROM crls')
    assert.equal(BigInt(unchanged?.['number'] as string), served)
    await again()
    recovered = await obtaining
  })
  after(() => responder?.close())

  const query = (text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  const signatures = () =>
    readFileSync(path.join(service.folder, 'signer-audit.jsonl'), 'utf8')
      .split('\n')
      .filter((line) => line.includes('"method":"signCertificate"'))
      .map((line) => parseAuditLine(line))

  /** Of one order, by any process. */
  const issuedLines = (log: readonly LogLine[], { orderId }: HeldCertificate) =>
    log.filter((line) => line['event'] === 'certificate_issued' && line['orderId'] === orderId)

  /** Orders a certificate whose record waits behind a lock; kills the service when the signature is in the audit chain. */
  async function killBeforeRecord(name: string): Promise<{ obtaining: Promise<HeldCertificate> }> {
    const before = signatures().length
    return locked('LOCK TABLE certificates IN SHARE MODE', async () => {
      const obtaining = client.obtain(name)
      await until('the signature', () => signatures().length > before)
      const waiting = "SELECT FROM pg_locks WHERE relation = 'certificates'::regclass AND NOT granted"
      await until('the record, waiting', async () => (await query(waiting)).length > 0)
      await service.kill()
      // What waits for a lock does not notice that its client is gone, and would commit.
      await query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'chancery'`,
      )
      // In an object, for the promise is not to be waited for.
      return { obtaining }
    })
  }

  /** While `work` runs no build comes to its end, so that the middle of one is not missed. */
  const withoutPublication = <T>(work: () => Promise<T>) => locked('LOCK TABLE crls IN EXCLUSIVE MODE', work)

  const locked = <T>(lock: string, work: () => Promise<T>): Promise<T> =>
    withQuery(service.database.connection, async (run) => {
      await run('BEGIN')
      await run(lock)
      const result = await work()
      await run('ROLLBACK')
      return result
    })

  async function list(): Promise<ReadCrl> {
    const { status, body } = await send({ method: 'GET', url: `${service.baseUrl}/crl` })
    assert.equal(status, 200)
    return readCrl(body)
  }

  const untilServed = (entries: number, above: bigint) =>
    until(`a list of ${entries} above number ${above}`, async () => {
      const crl = await list()
      return crl.entries.length === entries && crl.number > above && crl
    })

  /** @returns the number that is being built */
  async function untilBuilding(): Promise<string> {
    const row = await until('the middle of a build', async () => {
      const [found] = await query(
        `SELECT number FROM crl_pieces WHERE number > (SELECT number FROM crls)
          GROUP BY number HAVING count(*) >= ${PIECES_BEFORE_KILL}`,
      )
      return found
    })
    return String(row['number'])
  }

  async function addRevoked(count: number): Promise<void> {
    const [{ der } = { der: Buffer.alloc(0) }] = decodePem(readFileSync(service.ca.intermediate, 'utf8'))
    await insertRevoked(service.database.connection, fingerprintSha256(der), count)
  }

  async function assertNothingLeftOf(number: string): Promise<void> {
    // Deleted when the list after the next one is published.
    const [{ number: current } = { number: 0 }] = await query('SELECT number FROM crls')
    await query('UPDATE crl_changes SET changes = changes + 1')
    await untilServed((await list()).entries.length, BigInt(current as string))
    assert.deepEqual(await query(`SELECT FROM crl_pieces WHERE number = ${number}`), [])
  }

  test('a certificate that was signed has one line in the log, with the members of any other', async () => {
    await service.untilLogged('the recovery', ({ outcome }) => outcome === 'recorded')
    const [usualLine] = issuedLines(first.log, usual)
    const lines = issuedLines([...first.log, ...service.log], recovered)
    assert.equal(lines.length, 1)
    const [line] = lines
    assert.deepEqual(Object.keys(line as object).sort(), Object.keys(usualLine as object).sort())
    assert.equal(line?.level, usualLine?.level)
    assert.equal(line?.['accountId'], usualLine?.['accountId'])
    assert.deepEqual(line?.['names'], ['recovered.test'])
    const [row] = await query(
      "SELECT id, encode(serial_number, 'hex') AS serial FROM certificates WHERE order_id = $1",
      [recovered.orderId],
    )
    assert.deepEqual([line?.['id'], line?.['serialNumber']], [row?.['id'], row?.['serial']])
    const signed = signatures().filter((signature) => signature?.serial === line?.['serialNumber'])
    assert.equal(signed.length, 1, 'recovery gets the signature that the process that died had asked for')
  })

  test('a list that the service was building is built anew', async () => {
    const crl = await untilServed(ENTRIES, served)
    assert.ok(crl.number > BigInt(broken), 'its number is not used again')
    await assertNothingLeftOf(broken)
  })

  test('a list that the signer was killed for follows', async () => {
    const { number } = await list()
    const building = await withoutPublication(async () => {
      await addRevoked(1)
      const found = await untilBuilding()
      process.kill(service.signerPid(), 'SIGKILL')
      return found
    })
    await service.waitForLog('signer restarted')
    const crl = await untilServed(ENTRIES + 1, number)
    // Ready again in time, the signer may still get the list it was killed for.
    assert.ok(crl.number >= BigInt(building))
    if (crl.number > BigInt(building)) await assertNothingLeftOf(building)
    const { stale } = await until('health knows it', async () => {
      const { json } = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
      return json.checks.crl.status === 'ok' && json.checks.crl
    })
    assert.equal(stale, false)
  })
})
