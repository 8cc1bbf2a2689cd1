/** Alternate chains and the representation of a certificate (RFC 8555 §7.4.2). */

import assert from 'node:assert/strict'
import { randomBytes, webcrypto, X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Daemon, startDaemon } from '../signer/daemon.ts'
import {
  type AcmeClient,
  closeConnections,
  JOSE,
  type Obtained,
  pemToDer,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { x509 } from '../unit/shared/pki/support.ts'

const EC = { name: 'ECDSA', namedCurve: 'P-256' }
const SIGNING = { name: 'ECDSA', hash: 'SHA-256' }

/** The intermediate once more, signed by another root. @returns PEM of both */
async function crossSigned(intermediateFile: string): Promise<string> {
  const intermediate = new x509.X509Certificate(readFileSync(intermediateFile, 'utf8'))
  const keys = await webcrypto.subtle.generateKey(EC, true, ['sign', 'verify'])
  const validity = { notBefore: intermediate.notBefore, notAfter: intermediate.notAfter }
  const extensions = [
    new x509.BasicConstraintsExtension(true, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  ]
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '0102',
    name: 'CN=Another Root',
    keys,
    signingAlgorithm: SIGNING,
    ...validity,
    extensions: [...extensions, await x509.SubjectKeyIdentifierExtension.create(keys.publicKey)],
  })
  const subjectKey = await intermediate.publicKey.export(EC, ['verify'])
  const cross = await x509.X509CertificateGenerator.create({
    serialNumber: '0103',
    subject: intermediate.subject,
    issuer: root.subject,
    ...validity,
    publicKey: subjectKey,
    signingKey: keys.privateKey,
    signingAlgorithm: SIGNING,
    extensions: [...extensions, await x509.SubjectKeyIdentifierExtension.create(subjectKey)],
  })
  return `${cross.toString('pem')}\n${root.toString('pem')}\n`
}

describe('the chains of a certificate', () => {
  let first: TestService
  let service: TestService
  let daemon: Daemon
  let responder: Responder
  let client: AcmeClient
  let obtained: Obtained
  before(async () => {
    first = await startTestService({ fronts: 1 })
    responder = await startResponder(first.http01Port)
    client = await registeredClient(first.directoryUrl)
    obtained = await client.obtain(['chains.test'], responder)
    await first.stop()

    const file = (name: string) => path.join(first.folder, name)
    writeFileSync(file('secret'), randomBytes(32), { mode: 0o600 })
    writeFileSync(file('cross.pem'), await crossSigned(first.ca.intermediate))
    const { intermediate: certificate, intermediateKey, root: chain } = first.ca
    const issuer = {
      id: 'default',
      certificate,
      chain,
      alternate_chains: ['cross.pem'],
      key: { file: intermediateKey },
    }
    const signer = { socket: 'signer.sock', secret_file: 'secret', audit: { file: 'audit.jsonl' }, issuers: [issuer] }
    writeFileSync(file('signer.yaml'), JSON.stringify(signer))
    daemon = await startDaemon(file('signer.yaml'))
    const config = { ca: { signer: { socket: file('signer.sock'), secret_file: file('secret') } } }
    service = await startTestService({ fronts: 1, continueFrom: first, config })
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service?.dispose()
    await daemon?.stop()
    await first.dispose()
  })

  async function fetchAs(accept: string | undefined, url = obtained.certificateUrl) {
    const body = JSON.stringify(await client.jws(url))
    return send({ url, headers: { ...JOSE, ...(accept !== undefined && { Accept: accept }) }, body })
  }

  test('the default chain names the alternate one, also of a certificate that is older than it', async () => {
    const answer = await client.post(obtained.certificateUrl)
    assert.equal(answer.text, obtained.chain)
    assert.deepEqual(answer.links['alternate'], [`${obtained.certificateUrl}/1`])
  })

  test('the alternate chain starts with the same certificate and leads to the other root', async () => {
    const answer = await client.post(`${obtained.certificateUrl}/1`)
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['content-type'], 'application/pem-certificate-chain')
    const [leaf, cross, ...more] = pemToDer(answer.text).map((der) => new X509Certificate(der))
    assert.ok(leaf && cross)
    assert.deepEqual(leaf.raw, obtained.der)
    assert.ok(leaf.verify(cross.publicKey))
    assert.equal(cross.issuer, 'CN=Another Root')
    assert.equal(more.length, 0, 'the root is left out')
    assert.deepEqual(answer.links['alternate'], [obtained.certificateUrl])
  })

  test('a chain that is not there is 404, as is another spelling of one that is', async () => {
    for (const tail of ['/2', '/0', '/01', '/1/', '/1a', '/', '/100', '/-1'])
      assert.equal((await client.post(`${obtained.certificateUrl}${tail}`)).status, 404, tail)
  })

  test('an alternate chain is fetched by POST-as-GET of its own URL, by its account only', async () => {
    const url = `${obtained.certificateUrl}/1`
    assert.equal((await send({ method: 'GET', url })).status, 405)
    assert.equal((await client.post(url, {})).json.type, 'urn:ietf:params:acme:error:malformed')
    assert.equal((await client.post(url, undefined, { header: { url: obtained.certificateUrl } })).status, 403)
    const other = await registeredClient(service.directoryUrl)
    assert.equal((await other.post(url)).status, 403)
  })

  const CERTIFICATE_RANGES = [
    undefined,
    '*/*',
    'application/json',
    'application/pkix-cert',
    'application/pkcs7-mime, text/html',
    'application/pem-certificate-chain;q=0',
    '*/*;q=0',
    'application/pkix-cert;q=much',
    ',',
  ]
  for (const accept of CERTIFICATE_RANGES) {
    test(`Accept: ${accept ?? '(none)'} gets the PEM chain (§7.4.2, RFC 9110 §12.5.1)`, async () => {
      const answer = await fetchAs(accept)
      assert.equal(answer.status, 200)
      assert.equal(answer.headers['content-type'], 'application/pem-certificate-chain')
      assert.equal(answer.text, obtained.chain)
    })
  }
})
