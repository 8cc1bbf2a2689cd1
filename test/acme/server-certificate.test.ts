/** The certificate that a service issues to itself, where the signer has several issuers. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { constraintsOn, makeAuthority, type SignerFiles, writeSignerFiles } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import { startTestService } from '../support/service.ts'

describe('a server certificate by the issuer of the default profile', () => {
  const constraints = constraintsOn({ dns: ['corp.test'] })
  const authorities = { other: makeAuthority(), own: makeAuthority(), narrow: makeAuthority('P-256', { constraints }) }
  let files: SignerFiles
  let daemon: Daemon
  before(async () => {
    files = writeSignerFiles(authorities)
    daemon = await startDaemon(files.config)
  })
  after(async () => {
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  })

  const at = (name: string) => path.join(files.folder, name)
  const configOf = (issuer: string, names: string[]) => ({
    server: {
      workers: 1,
      tls: { cert_path: at('tls.pem'), key_path: at('tls.key'), self_issued_names: names },
    },
    ca: {
      signer: { socket: files.socket, secret_file: at('secret') },
      profiles: {
        default: { issuer, key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] },
      },
    },
  })

  test('leaves out names that the issuer may not certify, and the start warns of them', async (context) => {
    const config = configOf('narrow', ['acme.corp.test', 'localhost'])
    const service = await startTestService({ fronts: 1, config })
    context.after(() => service.dispose())
    const warning = await service.untilLogged('a warning', ({ message }) => /self_issued_names/.test(String(message)))
    assert.deepEqual(warning['names'], ['localhost'])
    await service.stop()
    assert.equal(new X509Certificate(readFileSync(at('tls.pem'))).subjectAltName, 'DNS:acme.corp.test')
  })

  test('is kept for as long as it is good, though the signer names another issuer first', async (context) => {
    const config = configOf('own', ['localhost'])
    const first = await startTestService({ fronts: 1, config })
    context.after(() => first.dispose())
    await first.stop()
    const issued = readFileSync(at('tls.pem'), 'utf8')
    assert.ok(new X509Certificate(issued).verify(new X509Certificate(authorities.own.certificate).publicKey))

    const second = await startTestService({ fronts: 1, config, continueFrom: first })
    await second.stop()
    assert.equal(readFileSync(at('tls.pem'), 'utf8'), issued)
  })
})
