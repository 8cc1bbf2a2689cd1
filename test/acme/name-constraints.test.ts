/** What an issuer's name constraints forbid is refused before anybody validates it (RFC 5280 §4.2.1.10). */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { constraintsOn, makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  locationOf,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import { withQuery } from '../support/revoked.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

describe('an issuer with name constraints', () => {
  const narrow = makeAuthority('P-256', {
    name: 'Narrow',
    constraints: constraintsOn({ dns: ['corp.test'] }, { dns: ['secret.corp.test'] }),
  })
  const open = makeAuthority('P-256', { name: 'Open' })
  let files: SignerFiles
  let daemon: Daemon
  let service: TestService
  let responder: Responder
  let client: AcmeClient
  before(async () => {
    files = writeSignerFiles({ narrow, open })
    daemon = await startDaemon(files.config)
    const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret') }
    const profiles = {
      lab: { issuer: 'open', key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] },
    }
    service = await startTestService({ fronts: 1, config: { ca: { signer, profiles } } })
    responder = await startResponder(service.http01Port)
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await service?.dispose()
    await daemon?.stop()
    rmSync(files.folder, { recursive: true })
  })

  const countOf = async (table: 'orders' | 'authorizations') =>
    withQuery(service.database.connection, async (run) => (await run(`SELECT FROM ${table}`)).length)

  test('new-order answers rejectedIdentifier, and nothing is left to validate', async () => {
    for (const name of ['x.lab.test', 'b.secret.corp.test']) {
      const refusal = await client.newOrder([name])
      assert.equal(refusal.status, 400, refusal.text)
      assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
      assert.match(refusal.json.detail, /name constraints of the CA/)
    }
    const several = await client.newOrder(['x.lab.test', 'www.corp.test', 'y.lab.test'])
    assert.equal(several.json.type, 'urn:ietf:params:acme:error:compound')
    assert.equal(several.json.subproblems.length, 2)
    assert.deepEqual([await countOf('orders'), await countOf('authorizations')], [0, 0])
  })

  test('what is inside is issued, and OpenSSL accepts it', async () => {
    const { der } = await client.obtain(['www.corp.test'], responder)
    const [root, leaf] = [path.join(files.folder, 'narrow.pem'), path.join(files.folder, 'leaf.pem')]
    writeFileSync(leaf, encodePem('CERTIFICATE', der))
    execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', root, leaf], { stdio: 'pipe' })
  })

  test('a profile with another issuer is not bound by them; a pre-authorization may be for either', async () => {
    await client.obtain(['x.lab.test'], responder, { order: { profile: 'lab' } })
    const identifier = { type: 'dns', value: 'y.lab.test' }
    assert.equal((await client.post(client.directory['newAuthz'] as string, { identifier })).status, 201)
  })

  test('finalize refuses what an issuer no longer certifies; the order stays ready', async () => {
    const order = await client.newOrder(['z.lab.test'], { profile: 'lab' })
    await client.authorize(order, responder)
    // The same id and key, and another certificate with constraints, as after a renewal by the root.
    const renewed = makeAuthority('P-256', {
      name: 'Open',
      keys: open,
      constraints: constraintsOn({ dns: ['open.test'] }),
    })
    writeFileSync(path.join(files.folder, 'open.pem'), renewed.certificatePem)
    daemon.process.kill('SIGHUP')
    await daemon.wrote(/issuers read again/)
    // Each thread learns of the new certificate by itself.
    await until(
      'new-order refuses it',
      async () => (await client.newOrder(['q.test'], { profile: 'lab' })).status === 400,
    )

    const refusal = await client.post(order.json.finalize, { csr: await csrFor(['z.lab.test']) })
    assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier', refusal.text)
    assert.match(refusal.json.detail, /z\.lab\.test is outside/)
    assert.equal((await client.post(locationOf(order))).json.status, 'ready')
    assert.equal(readFileSync(files.auditFile, 'utf8').includes('z.lab.test'), false)
  })
})
