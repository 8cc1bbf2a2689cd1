/** A database that is away for a moment costs no certificate that another CA has issued. */

import assert from 'node:assert/strict'
import { sign } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { createReceivedCertificates } from '../../../src/services/received-certificates.ts'
import { SIGNATURE_ALGORITHMS } from '../../../src/shared/pki/algorithms.ts'
import { assembleCertificate } from '../../../src/shared/pki/certificate.ts'
import { parseCsr } from '../../../src/shared/pki/csr.ts'
import { buildTbsCertificate } from '../../../src/shared/pki/tbs-certificate.ts'
import type { ClaimedIssuance } from '../../../src/store/csr-issuance-store.ts'
import { leafInput, makeAuthority } from '../../signer/authority.ts'
import { aCsr, P256_KEY } from '../shared/pki/support.ts'

const NAME = 'www.example.org'
const root = makeAuthority()
const csr = await aCsr(P256_KEY, { names: [{ type: 'dns', value: NAME }] })

function chain(name: string): Buffer[] {
  const tbs = buildTbsCertificate(leafInput(root, { spki: parseCsr(csr).spki.der, dnsNames: [name] }))
  const { hash } = SIGNATURE_ALGORITHMS[root.algorithm]
  return [assembleCertificate(tbs, root.algorithm, sign(hash, tbs, root.privateKey)), root.certificate]
}

const ROW: ClaimedIssuance = {
  ...{ certificateId: '01', accountId: '02', orderId: '03', csr, identifiers: [{ type: 'dns', value: NAME }] },
  ...{ profile: 'default', replaces: undefined, notBefore: new Date(), notAfter: new Date(), backend: 'external' },
  ...{ state: undefined, mayHaveIssued: true, isRepeated: false, failures: 0, ageSeconds: 0 },
  ...{ abandonedSeconds: undefined, lapse: undefined },
}
const AWAY = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

/** Every call fails until its turn. */
function receiving(faults: readonly Error[]) {
  const waiting = [...faults]
  const calls: string[] = []
  const call = (name: string) => {
    const fault = waiting.shift()
    if (fault) throw fault
    calls.push(name)
  }
  let alarms = 0
  const nothing = () => undefined
  const received = createReceivedCertificates({
    store: {
      saveIssuer: async () => call('saveIssuer'),
      async record() {
        call('record')
        return 'recorded'
      },
      async fail(_id, _instance, _error, unwanted) {
        call(`fail ${unwanted ? 'with' : 'without'} a certificate`)
        return true
      },
    },
    policy: { profiles: new Map(), trustAnchors: new Map([['external', [root.certificate]]]), refusesLint: false },
    instanceId: 1,
    events: { issued: nothing, lintWarnings: nothing, late: nothing, alarm: () => alarms++ },
  })
  return { received, calls, alarms: () => alarms }
}

const later = (ms: number) => performance.now() + ms

describe('a certificate of another CA while the database is away', { concurrency: true, timeout: 30_000 }, () => {
  // The pause of the service alone keeps no process alive.
  const alive = setInterval(() => undefined, 1_000)
  after(() => clearInterval(alive))

  test('is recorded as soon as the database is back', async () => {
    const { received, calls } = receiving([AWAY])
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'recorded')
    assert.deepEqual(calls, ['saveIssuer', 'record'])
  })

  test('is kept for its revocation when it is not what was asked for, and raises one alarm', async () => {
    const { received, calls, alarms } = receiving([AWAY])
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain('other.test') }, later(20_000)), 'failed')
    assert.deepEqual([calls, alarms()], [['fail with a certificate'], 1])
  })

  test('is held no longer than the lease of its row, and not for a fault that stays', async () => {
    for (const [fault, until] of [
      [AWAY, later(0)],
      [new Error('syntax error'), later(20_000)],
    ] as const) {
      const { received, calls } = receiving([fault])
      await assert.rejects(received.take(ROW, { status: 'issued', chain: chain(NAME) }, until), fault)
      assert.deepEqual(calls, [])
    }
  })
})
