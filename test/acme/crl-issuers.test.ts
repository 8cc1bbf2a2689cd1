/** CRLs where the signer has several issuers: one for each, and the default profile's at the bare path. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
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
import { readCrl } from '../support/crl.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('two issuers', () => {
  const authorities = { ec: makeAuthority('P-256'), ed: makeAuthority('Ed25519') }
  let files: SignerFiles
  let daemon: Daemon
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  before(async () => {
    files = writeSignerFiles(authorities, '', '{ max_crl_validity_days: 2 }')
    daemon = await startDaemon(files.config)
    const profiles = {
      other: { issuer: 'ed', key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] },
    }
    const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret') }
    service = await startTestService({ fronts: 1, config: { crl: { enabled: true }, ca: { signer, profiles } } })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  })

  const fetchCrl = async (name: string) => (await send({ method: 'GET', url: `${service.baseUrl}/crl${name}` })).body

  test('each has a list of its own; the bare path serves that of the default profile', async () => {
    const [bare, ec, ed] = [await fetchCrl(''), await fetchCrl('/ec'), await fetchCrl('/ed')]
    assert.deepEqual(bare, ec)
    assert.ok(ec.includes(authorities.ec.keyIdentifier) && !ec.includes(authorities.ed.keyIdentifier))
    assert.ok(ed.includes(authorities.ed.keyIdentifier))
  })

  test('a certificate names the list of its issuer, and is revoked there alone', async () => {
    const { der } = await client.obtain(['other.test'], responder, { order: { profile: 'other' } })
    assert.deepEqual(parseCertificate(der).tbs.crlDistributionPointUrls, [`${service.baseUrl}/crl/ed`])
    const revoked = await client.post(client.directory['revokeCert'] as string, { certificate: base64url(der) })
    assert.equal(revoked.status, 200)
    const serial = new X509Certificate(der).serialNumber.toLowerCase()
    await until('it is listed', async () =>
      readCrl(await fetchCrl('/ed')).entries.some((entry) => entry.serial === serial),
    )
    assert.deepEqual(readCrl(await fetchCrl('/ec')).entries, [])
  })
})
