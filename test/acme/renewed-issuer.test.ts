/**
 * An issuer whose certificate was renewed with the same name and key: it has one serial number once, and its list goes on
 * whichever of its certificates a CRL, an import or an operator names.
 */

import 'reflect-metadata'
import assert from 'node:assert/strict'
import { webcrypto, X509Certificate } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import * as x509 from '@peculiar/x509'
import pg from 'pg'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Obtained,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const KEY = { name: 'ECDSA', namedCurve: 'P-256' }
const CONFIG = { crl: { enabled: true } }

async function renewIntermediate(ca: DevCaFiles): Promise<void> {
  const former = new x509.X509Certificate(readFileSync(ca.intermediate, 'utf8'))
  const root = new x509.X509Certificate(readFileSync(ca.root, 'utf8'))
  const rootKey = x509.PemConverter.decodeFirst(readFileSync(ca.rootKey, 'utf8'))
  const renewed = await x509.X509CertificateGenerator.create(
    {
      serialNumber: '0102030405060708090a0b0c0d0e0f1011',
      subject: former.subject,
      issuer: root.subject,
      notBefore: former.notBefore,
      notAfter: former.notAfter,
      publicKey: await former.publicKey.export(KEY, ['verify'], webcrypto),
      signingKey: await webcrypto.subtle.importKey('pkcs8', rootKey, KEY, false, ['sign']),
      signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
      extensions: former.extensions,
    },
    webcrypto,
  )
  // The file may be a link to the CA of all tests.
  rmSync(ca.intermediate)
  writeFileSync(ca.intermediate, `${renewed.toString('pem')}\n`)
}

const serialOf = ({ der }: Obtained) => new X509Certificate(der).serialNumber.toLowerCase()

describe('an issuer whose certificate was renewed', () => {
  let first: TestService
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  let database: pg.Client
  let former: Obtained
  before(async () => {
    first = await startTestService({ fronts: 1, config: CONFIG })
    responder = await startResponder(first.http01Port)
    former = await (await registeredClient(first.directoryUrl)).obtain(['former.test'], responder)
    await first.stop()
    await renewIntermediate(first.ca)
    service = await startTestService({ fronts: 1, config: CONFIG, continueFrom: first })
    client = await registeredClient(service.directoryUrl)
    database = new pg.Client(service.database.connection)
    await database.connect()
  })
  after(async () => {
    closeConnections()
    await database?.end()
    await responder?.close()
    await service?.dispose()
    await first?.dispose()
  })

  const revoke = (der: Buffer) => client.post(client.directory['revokeCert'] as string, { certificate: base64url(der) })
  const list = async () => (await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body
  const listed = async () => readCrl(await list()).entries.map(({ serial }) => serial)
  const untilListed = (certificate: Obtained) =>
    until('its CRL entry', async () => (await listed()).includes(serialOf(certificate)))

  interface Row {
    issuer: string
    has_account: boolean
    is_revoked: boolean
  }
  const rowsOf = async (certificate: Obtained): Promise<Row[]> =>
    (
      await database.query<Row>(
        `SELECT encode(issuer_fingerprint, 'hex') AS issuer, account_id IS NOT NULL AS has_account,
                revoked_at IS NOT NULL AS is_revoked
           FROM certificates WHERE serial_number = decode($1, 'hex') ORDER BY id`,
        [serialOf(certificate)],
      )
    ).rows

  /** A second row under the issuer's other certificate, as older builds recorded it; its der is empty when unseen. */
  const plantCopy = (certificate: Obtained, as: 'imported' | 'unseen') =>
    database.query(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, spki_sha256,
                                 revoked_at, revocation_reason)
       SELECT ('ffffffff-0000-7000-8000-' || right(c.id::text, 12))::uuid, c.serial_number, i.fingerprint, c.names, c.not_before,
              c.not_after, CASE WHEN $2 THEN '' ELSE c.der END, c.spki_sha256,
              CASE WHEN $2 THEN date_trunc('second', now() - interval '1 hour') END, CASE WHEN $2 THEN 4 END
         FROM certificates c JOIN issuers i ON i.fingerprint <> c.issuer_fingerprint
        WHERE c.serial_number = decode($1, 'hex')`,
      [serialOf(certificate), as === 'unseen'],
    )

  test('has its certificates known by its CRL and by import, whichever of the two issued them', async () => {
    const revoked = await client.obtain(['revoked.test'], responder)
    assert.notEqual((await rowsOf(former))[0]?.issuer, (await rowsOf(revoked))[0]?.issuer)
    assert.equal((await revoke(revoked.der)).status, 200)
    await operate(service, 'certificates', 'revoke', serialOf(former), '--reason', '4')
    await operate(service, 'crl', 'rebuild')
    const file = path.join(service.folder, 'last.crl')
    writeFileSync(file, await list())
    const outcome = JSON.parse(await operate(service, 'certificates', 'revoke', '--from-crl', file, '--json'))
    assert.deepEqual(outcome, { entries: 2, revoked: 0, recorded: 0, known: 2 })

    const files = [former, revoked].map(({ chain }, index) => {
      const pem = path.join(service.folder, `${index}.pem`)
      writeFileSync(pem, chain)
      return pem
    })
    const { certificates } = JSON.parse(await operate(service, 'import', 'certificates', ...files, '--json'))
    assert.deepEqual([certificates.read, certificates.known], [2, 2])
    for (const certificate of [former, revoked]) assert.equal((await rowsOf(certificate)).length, 1)

    const later = await client.obtain(['later.test'], responder)
    assert.equal((await revoke(later.der)).status, 200)
    await untilListed(later)
  })

  test('has its certificate revoked by an operator who names the other certificate', async () => {
    const certificate = await client.obtain(['named.test'], responder)
    const [other] = await rowsOf(former)
    await operate(service, 'certificates', 'revoke', serialOf(certificate), '--issuer', other?.issuer ?? '')
    const [row, ...more] = await rowsOf(certificate)
    assert.deepEqual([row?.is_revoked, row?.issuer === other?.issuer, more], [true, false, []])
    await untilListed(certificate)
  })

  test('has both rows of one certificate revoked by its account, and lists it once', async () => {
    const certificate = await client.obtain(['imported.test'], responder)
    await plantCopy(certificate, 'imported')
    assert.equal((await revoke(certificate.der)).status, 200)
    assert.deepEqual(
      (await rowsOf(certificate)).map(({ is_revoked }) => is_revoked),
      [true, true],
    )
    assert.equal((await revoke(certificate.der)).status, 400)
    await untilListed(certificate)
    assert.equal((await listed()).filter((serial) => serial === serialOf(certificate)).length, 1)
  })

  test('has both rows of one certificate revoked by its operator, with the earlier date on the list', async () => {
    const certificate = await client.obtain(['unseen.test'], responder)
    await plantCopy(certificate, 'unseen')
    await operate(service, 'certificates', 'revoke', serialOf(certificate), '--reason', '1')
    assert.deepEqual(
      (await rowsOf(certificate)).map(({ is_revoked, has_account }) => [is_revoked, has_account]),
      [
        [true, true],
        [true, false],
      ],
    )
    assert.equal((await chancery(service, 'certificates', 'revoke', serialOf(certificate))).code, 1)
    await operate(service, 'crl', 'rebuild')
    const entries = readCrl(await list()).entries.filter(({ serial }) => serial === serialOf(certificate))
    assert.deepEqual(
      entries.map(({ reason }) => reason),
      [4],
    )
    assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status, 200)
  })

  test('has its list told of rows that it leaves out', () => {
    assert.ok(service.log.some((line) => /crl_duplicates/.test(JSON.stringify(line))))
  })
})
