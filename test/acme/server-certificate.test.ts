/** What a service has from a signer with several issuers: the certificate that it issues to itself, and its roots. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import type { NameConstraints } from '../../src/shared/pki/name-constraints.ts'
import { constraintsOn, makeAuthority } from '../signer/authority.ts'
import { useSigner } from '../signer/daemon.ts'
import { closeConnections, send } from '../support/acme-client.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { FOR_SERVERS } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const SERVES_NONE = 'api.roots_path serves'

describe('a service that issues its own certificate, by the issuer of the default profile', () => {
  const root = makeAuthority('P-256', { name: 'Offline Root' })
  const former = makeAuthority('P-256', { name: 'Former Root' })
  const below = (name: string, constraints?: NameConstraints) =>
    makeAuthority('P-256', { name, by: root, ...(constraints && { constraints }) })
  const authorities = { other: below('Other'), own: below('Own', constraintsOn({ dns: ['corp.test'] })) }
  const signer = useSigner(authorities)
  let first: TestService
  let issued: string
  let port: number
  before(async () => {
    port = await freePort()
  })
  after(() => first?.dispose())

  const at = (name: string) => signer.at(name)
  const configWith = (api: object = {}) => ({
    api: { roots_path: '/roots.pem', ...api },
    ca: {
      signer: signer.section,
      profiles: { default: { ...FOR_SERVERS, issuer: 'own' } },
    },
    crl: { enabled: true, http_port: port },
    server: {
      tls: { cert_path: at('tls.pem'), key_path: at('tls.key'), self_issued_names: ['acme.corp.test', 'localhost'] },
    },
  })
  /** A front that has just started answers 503 until its connection to the signer is made. */
  const roots = () =>
    until('the roots are known', async () => {
      const answer = await send({ method: 'GET', url: `http://127.0.0.1:${port}/roots.pem` })
      return answer.status !== 503 && answer
    })

  test('leaves out names that the issuer may not certify, and the start warns of them; it names no CRL', async () => {
    first = await startTestService({ fronts: 1, config: configWith() })
    const warning = await first.untilLogged('a warning', ({ message }) => /self_issued_names/.test(message))
    assert.deepEqual(warning['names'], ['localhost'])
    issued = readFileSync(at('tls.pem'), 'utf8')
    const certificate = new X509Certificate(issued)
    assert.equal(certificate.subjectAltName, 'DNS:acme.corp.test')
    assert.ok(certificate.verify(new X509Certificate(authorities.own.certificate).publicKey))
    assert.deepEqual(parseCertificate(certificate.raw).tbs.crlDistributionPointUrls, [])
  })

  test('has no roots of chains without their root: 404, and the start warns', async () => {
    const { status, text } = await roots()
    assert.equal(status, 404)
    assert.match(text, /api\.roots_file/)
    const warned = await first.untilLogged('no root', ({ message }) => message.startsWith(SERVES_NONE))
    assert.deepEqual(warned['issuers'], ['other', 'own'])
    closeConnections()
    await first.stop()
  })

  test('keeps it for as long as it is good, and has the roots of the file', async () => {
    const pems = root.certificatePem + former.certificatePem
    const roots_file = at('roots.pem')
    writeFileSync(roots_file, pems)
    const second = await startTestService({ fronts: 1, config: configWith({ roots_file }), continueFrom: first })
    assert.equal((await roots()).text, pems)
    assert.ok(!second.log.some(({ message }) => message.startsWith(SERVES_NONE)))
    closeConnections()
    await second.stop()
    assert.equal(readFileSync(at('tls.pem'), 'utf8'), issued)
  })
})
