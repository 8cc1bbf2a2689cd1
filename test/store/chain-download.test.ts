/** Chains for download: what another CA sends anew for an issuer is seen by threads that know its chain already. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createChainDownload } from '../../src/services/chain-download.ts'
import { fingerprintSha256, parseCertificate } from '../../src/shared/pki/certificate.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { createCsrIssuanceStore } from '../../src/store/csr-issuance-store.ts'
import { makeAuthority } from '../signer/authority.ts'
import { until } from '../support/until.ts'
import { anAccount, anIntent, anIssued, aReadyOrder, useStores } from './support.ts'

const [issuer, cross, other] = [makeAuthority(), makeAuthority(), makeAuthority()].map(({ certificate }) => certificate)
const pem = (...certificates: (Buffer | undefined)[]) =>
  certificates.map((der) => encodePem('CERTIFICATE', der as Buffer)).join('')

describe('the chain of an issuer', () => {
  const store = useStores()

  test('is read again after a while, as are its alternates', async () => {
    const fingerprint = Buffer.from(fingerprintSha256(issuer as Buffer), 'hex')
    const save = (chain: readonly (Buffer | undefined)[], alternate: Buffer | undefined) =>
      createCsrIssuanceStore(store.db).saveIssuer({
        fingerprint,
        certificate: issuer as Buffer,
        chain: chain as Buffer[],
        alternateChains: alternate ? [[alternate]] : [],
      })
    await save([issuer], undefined)
    const { requester } = await anAccount(store)
    const { id } = await aReadyOrder(store, requester)
    const intent = anIntent({ id, requester }, { issuerFingerprint: fingerprint })
    await store.issuance.begin(intent)
    await store.issuance.complete({ ...anIssued(intent), der: parseCertificate(issuer as Buffer).der })

    let reads = 0
    const certificates = {
      ...store.certificates,
      findIssuerChain(wanted: string) {
        reads++
        return store.certificates.findIssuerChain(wanted)
      },
    }
    const chains = createChainDownload(
      certificates,
      { includeRoot: true, issuers: () => [], chainLifeMs: 5_000 },
      undefined,
    )
    const download = (chain: number) => chains.download(requester, intent.certificateId, chain)
    assert.deepEqual(await download(0), { pem: pem(issuer, issuer), chainCount: 1 })
    await Promise.all(Array.from({ length: 50 }, () => download(0)))
    assert.equal(reads, 1, 'downloads of one moment share one look')

    await save([issuer, cross], other)
    await until('the new chain', async () => (await download(0)).pem === pem(issuer, issuer, cross))
    await until('its alternate', async () => (await download(0)).chainCount === 2)
    assert.equal((await download(1)).pem, pem(issuer, other))
  })
})
