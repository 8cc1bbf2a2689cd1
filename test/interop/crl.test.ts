/** CRLs of RSA and EC issuers, judged by OpenSSL, GnuTLS and Python's cryptography from Debian. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { makeAuthority } from '../signer/authority.ts'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  type Responder,
  registeredClient,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { readCrl, verifyWithGnutls, verifyWithOpenssl, verifyWithPython } from '../support/crl.ts'
import { requireCommand } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'

const SUPERSEDED = 4
const NO_CRL: Buffer = Buffer.alloc(0)
const WITHIN_MS = 120_000

/** `undefined` is the development CA: a P-256 intermediate below a root. The RSA issuer is a root itself. */
const ISSUERS = { EC: undefined, RSA: makeAuthority('RSA') } as const

for (const [kind, authority] of Object.entries(ISSUERS)) {
  for (const shards of [1, 4]) {
    describe(`CRLs of an ${kind} issuer${shards === 1 ? '' : `, in ${shards} parts`}`, () => {
      let folder: string
      let service: TestService
      let responder: Responder
      let client: AcmeClient
      let rootFile: string
      const good = { chain: '', crl: NO_CRL, revoked: false }
      const bad = { chain: '', crl: NO_CRL, revoked: true }
      before(async () => {
        folder = mkdtempSync(path.join(tmpdir(), 'chancery-crl-ca-'))
        const crl = { enabled: true, shards, hash_algorithm: shards === 1 ? 'sha256' : 'sha384' }
        service = await startTestService({
          fronts: 1,
          config: { crl, ...(authority && { ca: { internal: writeCa() } }) },
        })
        rootFile = authority ? path.join(folder, 'ca.pem') : service.ca.root
        responder = await startResponder(service.http01Port)
        client = await registeredClient(service.directoryUrl)
        await issueAndRevoke()
      })
      after(async () => {
        closeConnections()
        await responder.close()
        await service.dispose()
        rmSync(folder, { recursive: true })
      })

      function writeCa() {
        const [root_cert_path, root_key_path] = [path.join(folder, 'ca.pem'), path.join(folder, 'ca.key')]
        writeFileSync(root_cert_path, authority!.certificatePem)
        const key = authority!.privateKey.export({ format: 'pem', type: 'pkcs8' })
        writeFileSync(root_key_path, key, { mode: 0o600 })
        return { root_cert_path, root_key_path, chain_path: null }
      }

      async function issueAndRevoke(): Promise<void> {
        const [kept, revoked] = [
          await client.obtain(['kept.test'], responder),
          await client.obtain(['bad.test'], responder),
        ]
        const payload = { certificate: base64url(revoked.der), reason: SUPERSEDED }
        assert.equal((await client.post(client.directory['revokeCert'] as string, payload)).status, 200)
        bad.chain = withIssuer(revoked.chain)
        bad.crl = await crlWith(revoked.der)
        good.chain = withIssuer(kept.chain)
        good.crl = await fetchCrl(kept.der)
      }

      const withIssuer = (chain: string) => (authority ? chain + readFileSync(rootFile, 'utf8') : chain)

      /** From where the certificate says. */
      async function fetchCrl(der: Buffer): Promise<Buffer> {
        const [url] = parseCertificate(der).tbs.crlDistributionPointUrls
        assert.ok(url, 'the certificate names its CRL')
        assert.equal(url.includes('/4-'), shards === 4)
        const { status, body } = await send({ method: 'GET', url })
        assert.equal(status, 200)
        return body
      }

      async function crlWith(der: Buffer): Promise<Buffer> {
        const serial = new X509Certificate(der).serialNumber.toLowerCase()
        const deadline = performance.now() + WITHIN_MS
        for (;;) {
          const crl = await fetchCrl(der)
          if (readCrl(crl).entries.some((entry) => entry.serial === serial)) return crl
          assert.ok(performance.now() < deadline, 'the revocation is in the CRL in time')
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
      }

      for (const judged of [good, bad]) {
        const verdict = () => (judged.revoked ? 'a revoked certificate is refused' : 'another one is accepted')
        test(`openssl verify -x509_strict -crl_check: ${verdict()}`, requireCommand('openssl'), () =>
          verifyWithOpenssl({ ...judged, rootFile }),
        )
        test(`certtool: ${verdict()}`, requireCommand('certtool'), () => verifyWithGnutls({ ...judged, rootFile }))
        test(`Python's cryptography: ${verdict()}`, requireCommand('python3'), () =>
          verifyWithPython({ ...judged, rootFile }),
        )
      }
    })
  }
}
