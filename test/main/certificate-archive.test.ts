/** The archive in a whole service: a death between file and removal, a full disk, and what clients find afterwards. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { MANIFEST } from '../../src/services/archive/archive-files.ts'
import { type ArchiveReport, verifyArchive } from '../../src/services/archive/archive-reader.ts'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { age } from '../support/aged-certificate.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { runChancery } from '../support/commands.ts'
import { untilCompared } from '../support/compared.ts'
import { readCrl } from '../support/crl.ts'
import { pageBlock } from '../support/page-blocks.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { canMount, type SmallDisk, startDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const DISK_BYTES = 256 * 1024
const LIFETIME_DAYS = 90
const ARCHIVED_AFTER_DAYS = 30

describe('the archive of a service', { skip: !canMount && 'needs to mount a tmpfs' }, () => {
  const folder = temporaryFolder()
  const started: TestService[] = []
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let disk: SmallDisk
  let archive: string
  let database: pg.Client
  before(async () => {
    disk = await startDisk(folder, DISK_BYTES)
    archive = path.join(disk.folder, 'archive')
    await start()
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
    database = new pg.Client(service.database.connection)
    await database.connect()
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await database.end()
    for (const one of started.toReversed()) await one.dispose()
    disk.stop()
  })

  async function start(continueFrom?: TestService): Promise<void> {
    const retention = {
      certificates_days_after_expiry: ARCHIVED_AFTER_DAYS,
      archive_dir: archive,
      cleanup_interval_seconds: 1,
      cleanup_loop_interval_seconds: 1,
    }
    const config = { retention, crl: { enabled: true }, ari: { enabled: true } }
    service = await startTestService({ fronts: 1, config, ...(continueFrom && { continueFrom }) })
    started.push(service)
  }

  async function issue(name: string) {
    const { der, certificateUrl, orderUrl } = await client.obtain([name], responder)
    const serial = new X509Certificate(der).serialNumber.toLowerCase()
    return { der, certificateUrl, orderUrl, serial, certId: certIdOf(der) }
  }
  /** Only the row is made older: the signer's certificate stays valid, and an early comparison would bring it back. */
  async function makeOld(der: Buffer): Promise<void> {
    await untilCompared(service)
    await age(service, der, LIFETIME_DAYS + ARCHIVED_AFTER_DAYS + 10)
  }
  const isThere = async (der: Buffer) =>
    (await database.query('SELECT FROM certificates WHERE der = $1', [der])).rowCount === 1
  const untilGone = (der: Buffer) => until('the certificate is archived', async () => !(await isThere(der)))

  async function archived(...args: string[]) {
    const { code, stdout, stderr } = await runChancery(['certificates', ...args], { SERVICE_CONFIG: '' })
    return { code, output: stdout + stderr }
  }
  const report = (): Promise<ArchiveReport> => verifyArchive(archive)

  test('a death between file and removal loses nothing, and the next start goes on', async () => {
    const { der, serial } = await issue('killed.test')
    const locker = new pg.Client(service.database.connection)
    await locker.connect()
    try {
      await locker.query('BEGIN')
      await locker.query('LOCK TABLE renewal_advice IN SHARE MODE')
      await makeOld(der)
      await until('the file is named', () => existsSync(path.join(archive, MANIFEST)) && named() > 0)
      await service.kill()
      assert.equal(await isThere(der), true)
    } finally {
      await locker.end()
    }
    await start(service)
    await untilGone(der)
    const { faults, unnamed, certificates } = await report()
    assert.deepEqual({ faults, unnamed, certificates }, { faults: [], unnamed: [], certificates: 1 })
    const typed = pageBlock('docs/operations/database.md', 'archive-look', {
      '0a1b2c…': serial,
      '/var/lib/chancery/archive': archive,
      '/etc/chancery/config.yaml': path.join(service.folder, 'config.yaml'),
    })
    const [show, verify] = typed.split('\n').map((line) => runChancery(line.split(' ').slice(1)))
    const { code, stdout } = await (show as NonNullable<typeof show>)
    assert.equal(code, 0)
    assert.match(stdout, /killed\.test/)
    assert.deepEqual(new X509Certificate(stdout.slice(stdout.indexOf('-----BEGIN'))).raw, der)
    assert.equal((await verify)?.code, 0)
  })
  const named = () => readFileSync(path.join(archive, MANIFEST), 'utf8').length

  // RFC 5280 §3.3: an entry stays until it has been on a list after the certificate's expiry.
  test('a revoked certificate stays on the list, until one after its expiry had it', async () => {
    const [revoked, other] = [await issue('revoked.test'), await issue('other.test')]
    const revokeCert = client.directory['revokeCert'] as string
    assert.equal((await client.post(revokeCert, { certificate: base64url(revoked.der) })).status, 200)
    const isListed = async () => {
      const { body } = await send({ method: 'GET', url: `${service.baseUrl}/crl` })
      return readCrl(body).entries.some(({ serial }) => serial === revoked.serial)
    }
    await until('it is on the list', isListed)
    await makeOld(revoked.der)
    await makeOld(other.der)
    await untilGone(other.der)
    assert.equal(await isThere(revoked.der), true)
    await database.query("UPDATE certificates SET revoked_at = not_after - interval '1 day' WHERE der = $1", [
      revoked.der,
    ])
    await untilGone(revoked.der)
    await until('it has left the list', async () => !(await isListed()))
  })

  test('a full disk is an alarm and deletes nothing; with room it goes on', async () => {
    const { der } = await issue('full.test')
    const filler = path.join(disk.folder, 'filler')
    fill(filler)
    await makeOld(der)
    const failed = await service.untilLogged('the failure', ({ task, reason }) => {
      return task === 'certificate_archive' && /ENOSPC/.test(String(reason))
    })
    assert.equal(failed.level, 'error')
    await until('administrators are told', async () => {
      const { rows } = await database.query("SELECT last_error FROM background_runs WHERE task = 'certificate_archive'")
      return /ENOSPC/.test(String(rows[0]?.last_error))
    })
    assert.equal(await isThere(der), true)
    rmSync(filler)
    await untilGone(der)
    assert.deepEqual((await report()).faults, [])
  })
  function fill(file: string): void {
    writeFileSync(file, '')
    for (const block of [4096, 1])
      try {
        for (;;) writeFileSync(file, Buffer.alloc(block), { flag: 'a' })
      } catch {
        // Full.
      }
  }

  test('clients find nothing of it: 404 for certificate, order and renewal information, and no order in the list', async () => {
    const { der, certificateUrl, orderUrl, certId } = await issue('gone.test')
    const renewalInfo = `${client.directory['renewalInfo']}/${certId}`
    assert.equal((await send({ method: 'GET', url: renewalInfo })).status, 200)
    await makeOld(der)
    await untilGone(der)
    const revokeCert = client.directory['revokeCert'] as string
    const revoked = await client.post(revokeCert, { certificate: base64url(der) })
    assert.deepEqual([revoked.status, revoked.json.type], [404, 'urn:ietf:params:acme:error:malformed'])
    for (const url of [certificateUrl, orderUrl]) {
      // What a front thread remembers of a flow it forgets after seconds.
      await until('it is gone', async () => (await client.post(url)).status === 404)
      const { status, json } = await client.post(url)
      assert.deepEqual([status, json.type], [404, 'urn:ietf:params:acme:error:malformed'], url)
    }
    assert.equal((await send({ method: 'GET', url: renewalInfo })).status, 404)
    const { json } = await client.post(`${client.kid}/orders`)
    assert.ok(!(json.orders as string[]).includes(orderUrl))
    const { status, json: problem } = await client.newOrder(['gone.test'], { replaces: certId })
    assert.deepEqual([status, problem.type], [404, 'urn:ietf:params:acme:error:malformed'])
  })

  test('certificates archive verify keeps the only copy, with a configuration or without', async () => {
    const manifest = path.join(archive, MANIFEST)
    const lines = readFileSync(manifest, 'utf8')
    writeFileSync(manifest, lines.split('\n').slice(1).join('\n'))
    try {
      const file = path.join(service.folder, 'config.yaml')
      const { code, output } = await archived('archive', 'verify', archive, '--config', file)
      assert.equal(code, 1, output)
      assert.match(output, /jsonl\.gz: not in the manifest, and 1 of its 1 certificates stand nowhere else: keep it/)
      const unasked = await archived('archive', 'verify', archive)
      assert.equal(unasked.code, 1, unasked.output)
      assert.doesNotMatch(unasked.output, /may be removed/)
    } finally {
      writeFileSync(manifest, lines)
    }
  })

  test('certificates archive verify says what somebody has changed', async () => {
    assert.equal((await archived('archive', 'verify', archive)).code, 0)
    const manifest = path.join(archive, MANIFEST)
    writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('"certificates":1', '"certificates":2'))
    const { code, output } = await archived('archive', 'verify', archive)
    assert.equal(code, 1)
    assert.match(output, /does not follow the line before/)
  })
})
