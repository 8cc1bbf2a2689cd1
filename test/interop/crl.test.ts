/** CRLs of RSA and EC issuers, whole and in parts, judged by OpenSSL, GnuTLS and Python's cryptography from Debian. */

import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { type Authority, makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { revoke, send, serialOf } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { testCa } from '../support/ca.ts'
import { readCrl, verifyWithGnutls, verifyWithOpenssl, verifyWithPython } from '../support/crl.ts'
import { rowsIn } from '../support/database.ts'
import { SUPERSEDED } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import type { TestServiceOptions } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const ISSUERS = ['ec', 'rsa'] as const
const JUDGES = [
  ['openssl verify -x509_strict -crl_check', 'openssl', verifyWithOpenssl],
  ['certtool', 'certtool', verifyWithGnutls],
  ["Python's cryptography", 'python3', verifyWithPython],
] as const

/** The second time the service is started again on what it left. */
describe('CRLs', () => {
  const folder = temporaryFolder()
  let signer: TestSigner
  const rootFiles: Record<string, string> = {}
  before(async () => {
    // The development CA is a P-256 intermediate below a root; the RSA issuer is a root itself.
    const ca = await testCa(path.join(folder, 'ca'))
    const ec = {
      certificatePem: readFileSync(ca.intermediate, 'utf8'),
      privateKey: createPrivateKey(readFileSync(ca.intermediateKey)),
      algorithm: 'SHA256withECDSA',
    }
    const rsa = makeAuthority('RSA', { hash: 'sha384' })
    Object.assign(rootFiles, { ec: ca.root, rsa: path.join(folder, 'rsa.pem') })
    writeFileSync(rootFiles['rsa'] as string, rsa.certificatePem)
    signer = new TestSigner({ ec: ec as Authority, rsa }, { policyYaml: '{ max_crl_validity_days: 2 }' })
    await signer.start()
  })
  const inParts = (shards: number): TestServiceOptions => {
    const usages = { key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] }
    const profiles = Object.fromEntries(ISSUERS.map((issuer) => [issuer, { issuer, ...usages }]))
    return { fronts: 1, config: { crl: { enabled: true, shards }, ca: { signer: signer.section, profiles } } }
  }
  const { service, responder, client, again } = restartedScene(() => inParts(1))
  after(() => signer?.end())

  /** From where the certificate says. */
  async function fetchCrl(der: Buffer, shards: number): Promise<Buffer> {
    const [url] = parseCertificate(der).tbs.crlDistributionPointUrls
    assert.ok(url, 'the certificate names its CRL')
    assert.equal(url.includes(`/${shards}-`), shards > 1)
    const { status, body } = await send({ method: 'GET', url })
    assert.equal(status, 200)
    return body
  }

  for (const shards of [1, 4])
    describe(shards === 1 ? 'as a whole' : `in ${shards} parts`, () => {
      before(async () => {
        if (shards === 1) return
        await service.stop()
        await rowsIn(
          service.database,
          `CREATE FUNCTION obstruct() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$;
           CREATE TRIGGER obstruct BEFORE INSERT ON crls FOR EACH ROW WHEN (NEW.shards > 1) EXECUTE FUNCTION obstruct()`,
        )
        await again(inParts(shards))
      })

      if (shards > 1)
        test('a part that certificates name already, and that is not built, is 503 with Retry-After', async () => {
          const part = { method: 'GET', url: `${service.baseUrl}/crl/ec/${shards}-0` }
          const crl = async () => (await send({ method: 'GET', url: `${service.baseUrl}/healthz` })).json.checks.crl
          const { status, headers } = await send(part)
          assert.deepEqual([status, headers['retry-after'] !== undefined], [503, true])
          assert.deepEqual(await crl(), { status: 'error', stale: true })
          await rowsIn(service.database, 'DROP FUNCTION obstruct CASCADE')
          await until('it is built', async () => (await send(part)).status === 200)
          await until('all are built', async () => !(await crl()).stale)
        })

      for (const issuer of ISSUERS)
        describe(`of the issuer ${issuer}`, () => {
          const judged: Record<'good' | 'bad', { chain: string; crl: Buffer }> = {} as never
          before(async () => {
            const obtain = (name: string) => client.obtain([name], responder, { order: { profile: issuer } })
            const withIssuer = (chain: string) =>
              issuer === 'rsa' ? chain + readFileSync(rootFiles['rsa'] as string, 'utf8') : chain
            const [kept, revoked] = [await obtain('kept.test'), await obtain('bad.test')]
            assert.equal((await revoke(client, revoked.der, SUPERSEDED)).status, 200)
            const serial = serialOf(revoked.der)
            const crl = await until('the revocation is in the CRL', async () => {
              const body = await fetchCrl(revoked.der, shards)
              return readCrl(body).entries.some((entry) => entry.serial === serial) && body
            })
            judged.bad = { chain: withIssuer(revoked.chain), crl }
            judged.good = { chain: withIssuer(kept.chain), crl: await fetchCrl(kept.der, shards) }
          })

          for (const [judge, command, verify] of JUDGES)
            test(`${judge}: a revoked certificate is refused, another one is accepted`, requireCommand(command), () => {
              const rootFile = rootFiles[issuer] as string
              verify({ ...judged.good, revoked: false, rootFile })
              verify({ ...judged.bad, revoked: true, rootFile })
            })
        })
    })
})
