/** Keys in a SoftHSM token, through the daemon and its socket. */

import assert from 'node:assert/strict'
import { verify, X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { type AuthorityKind, leafTbs, makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { rawTbsList } from '../signer/raw-tbs-list.ts'
import { makeToken, PIN, SOFTHSM_LIBRARY, type TestToken } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))

const KINDS: readonly AuthorityKind[] = ['P-256', 'P-384', 'P-521', 'RSA']
const HASHES = ['sha256', 'sha384', 'sha512'] as const
const timeoutMs = 60_000

describe('a key in a token', NEEDS, () => {
  const authorities = Object.fromEntries(
    KINDS.flatMap((kind) => HASHES.map((hash) => [`${kind}-${hash}`, makeAuthority(kind, { hash })])),
  )
  let token: TestToken
  let signer: TestSigner
  before(async () => {
    token = makeToken()
    const keys = Object.entries(authorities).map(([id, { privateKey }], index) => {
      const keyId = (index + 1).toString(16).padStart(2, '0')
      token.importKey(privateKey, `key ${id}`, keyId)
      // By label, by id, and by both.
      const place = [{ label: `key ${id}` }, { id: keyId }, { label: `key ${id}`, id: keyId }][index % 3]
      const pkcs11 = { library: SOFTHSM_LIBRARY, token: 'ca', pin_file: token.pinFile, ...place }
      return [id, { ...pkcs11, sessions: index === 0 ? 32 : 2 }]
    })
    signer = new TestSigner(authorities, { tokenKeys: Object.fromEntries(keys), env: token.env })
    await signer.start()
  })
  after(async () => {
    await signer?.end()
    token.remove()
  })

  for (const [id, authority] of Object.entries(authorities)) {
    test(`signs certificates as ${id}`, async () => {
      const certificate = await signer.backend.signCertificate(id, leafTbs(authority), {
        timeoutMs,
        requester: 'order 1',
      })
      assert.ok(new X509Certificate(certificate).verify(new X509Certificate(authority.certificate).publicKey))
    })
  }

  // The hash of CRLs is a setting of its own (`crl.hash_algorithm`).
  for (const [id, algorithm] of [
    ['P-256-sha256', 'SHA256withECDSA'],
    ['P-521-sha256', 'SHA512withECDSA'],
    ['RSA-sha384', 'SHA512withRSA'],
  ] as const) {
    test(`signs a CRL in pieces as ${id} with ${algorithm}`, async () => {
      const authority = authorities[id]!
      const tbs = rawTbsList(authority, { number: 7n, algorithm })
      const list = { signatureAlgorithm: algorithm, length: tbs.length, pieces: oneByOne(tbs) }
      const signature = await signer.backend.signCrl(id, list, { timeoutMs, requester: 'crl' })
      const { publicKey } = new X509Certificate(authority.certificate)
      assert.ok(verify(SIGNATURE_ALGORITHMS[algorithm].hash, tbs, publicKey, signature))
    })
  }

  async function* oneByOne(tbs: Buffer): AsyncIterable<Buffer> {
    for (let at = 0; at < tbs.length; at += 100) yield tbs.subarray(at, at + 100)
  }

  test('answers 500 requests at once with its 32 sessions', async () => {
    const authority = authorities['P-256-sha256']!
    const requests = Array.from({ length: 500 }, (_, index) => {
      const tbs = leafTbs(authority, { dnsNames: [`host-${index}.example.org`] })
      return signer.backend.signCertificate('P-256-sha256', tbs, { timeoutMs, requester: `order ${index}` })
    })
    const serials = new Set((await Promise.all(requests)).map((der) => new X509Certificate(der).serialNumber))
    assert.equal(serials.size, 500)
  })

  test('answers more requests than it has sessions, long names and all keys at once', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `${'a'.repeat(60)}.${index}.example.org`)
    await Promise.all(
      Object.entries(authorities).flatMap(([id, authority]) =>
        Array.from({ length: 8 }, () =>
          signer.backend.signCertificate(id, leafTbs(authority, { dnsNames: names }), {
            timeoutMs,
            requester: 'order 2',
          }),
        ),
      ),
    )
  })

  test('shows its state in health', async () => {
    const { tokens } = (await signer.client.call('health', {}, { timeoutMs })).meta
    assert.equal(tokens!.length, Object.keys(authorities).length)
    assert.ok(tokens!.every(({ status, reason }) => status === 'ready' && reason === undefined))
  })

  test('stands nowhere with its PIN in the log', () => {
    assert.ok(!signer.daemon.output().includes(PIN))
  })
})
