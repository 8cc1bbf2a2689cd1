/** A database that is away for a moment costs no certificate that another CA has issued, and no line of it. */

import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Certificate } from '../../../src/domain/records.ts'
import { createReceivedCertificates } from '../../../src/services/received-certificates.ts'
import { parseCsr } from '../../../src/shared/pki/csr.ts'
import { buildTbsCertificate } from '../../../src/shared/pki/tbs-certificate.ts'
import type { ClaimedIssuance, ReceivedCertificate } from '../../../src/store/csr-issuance-store.ts'
import { DAY_MS, leafInput, makeAuthority, signedBy } from '../../signer/authority.ts'
import { until } from '../../support/until.ts'
import { aCsr, P256_KEY } from '../shared/pki/support.ts'

const NAME = 'www.example.org'
const root = makeAuthority()
const csr = await aCsr(P256_KEY, { names: [{ type: 'dns', value: NAME }] })

function chain(name: string, changes: { notAfter?: Date } = {}): Buffer[] {
  const tbs = buildTbsCertificate(leafInput(root, { spki: parseCsr(csr).spki.der, dnsNames: [name], ...changes }))
  return [signedBy(root, tbs), root.certificate]
}

const ROW: ClaimedIssuance = {
  certificateId: '01',
  accountId: '02',
  orderId: '03',
  csr,
  identifiers: [{ type: 'dns', value: NAME }],
  profile: 'default',
  replaces: undefined,
  notBefore: new Date(),
  notAfter: new Date(),
  backend: 'external',
  requested: {},
  state: undefined,
  status: 'promised',
  isRepeated: false,
  failures: 0,
  ageSeconds: 0,
  abandonedSeconds: undefined,
  lapse: undefined,
  wasInterrupted: false,
}
const PROFILE = {
  validity: { validityDays: 90, maxValidityDays: 90, backdateSeconds: 0 },
  keyUsages: ['digital_signature' as const],
  extendedKeyUsages: ['server_auth' as const],
}
const AWAY = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

/** Every call fails until its turn; `lost` records the certificate, and fails all the same. */
function receiving(faults: readonly Error[], { lost = 0, away = 0, isHeld = true, isRevoked = false } = {}) {
  const waiting = [...faults]
  const calls: string[] = []
  const told: string[] = []
  let recorded: ReceivedCertificate | undefined
  let [lostAnswers, awayLooks] = [lost, away]
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
      async record(certificate) {
        call('record')
        if (recorded) return 'lost'
        recorded = certificate
        if (lostAnswers-- > 0) throw AWAY
        return 'recorded'
      },
      async fail(_id, _instance, _error, unwanted) {
        call(`fail ${unwanted ? 'with' : 'without'} a certificate`)
        return isHeld
      },
      async disown(_id, _backend, der) {
        call('disown')
        return recorded?.der.equals(der) !== true
      },
    },
    certificates: {
      async findBySerial(serialNumber, der) {
        if (awayLooks-- > 0) throw AWAY
        const isIt = recorded && der?.equals(recorded.der) && recorded.serialNumber.equals(serialNumber)
        return isIt
          ? ({ id: recorded?.certificateId, revokedAt: isRevoked ? new Date() : undefined } as Certificate)
          : undefined
      },
    },
    policy: {
      profiles: new Map(),
      defaultProfile: PROFILE,
      policyOids: [],
      accepted: new Map(),
      trustAnchors: new Map([['external', [root.certificate]]]),
      refusesLint: false,
    },
    instanceId: 1,
    events: {
      issued: ({ id }) => told.push(id),
      lintWarnings: nothing,
      recovered: nothing,
      late: () => told.push('late'),
      alarm: () => alarms++,
    },
  })
  return { received, calls, told, alarms: () => alarms }
}

const later = (ms: number) => performance.now() + ms

describe('a certificate of another CA while the database is away', { concurrency: true }, () => {
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

  test('is held against the default profile when its own has left the configuration', async () => {
    const { received, alarms } = receiving([])
    const days = 91 * DAY_MS
    const tooLong = chain(NAME, { notAfter: new Date(Math.floor((Date.now() + days) / 1000) * 1000) })
    const row = { ...ROW, profile: 'gone' }
    assert.equal(await received.take(row, { status: 'issued', chain: tooLong }, later(20_000)), 'failed')
    assert.equal(alarms(), 1)
    assert.equal(await received.take(row, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'recorded')
  })

  test('is announced once when only the answer to its record is lost', async () => {
    const { received, told } = receiving([], { lost: 1 })
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'recorded')
    assert.deepEqual(told, [ROW.certificateId])
  })

  test('is announced, too, when it came too late for its order', async () => {
    const { received, told } = receiving([], { lost: 1, isRevoked: true })
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'failed')
    assert.deepEqual(told, [ROW.certificateId, 'late'])
  })

  test('is announced when the database is back only after the lease of its row', async () => {
    const { received, told } = receiving([], { lost: 1, away: 1 })
    await assert.rejects(received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(0)), AWAY)
    await until('its line in the log', () => told.length > 0)
    assert.deepEqual(told, [ROW.certificateId])
  })

  test('is not announced by one whose row another instance has taken', async () => {
    const { received, told } = receiving([AWAY], { lost: 0 })
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'recorded')
    assert.equal(await received.take(ROW, { status: 'issued', chain: chain(NAME) }, later(20_000)), 'pending')
    assert.deepEqual(told, [ROW.certificateId])
  })

  test('is to be revoked when another instance has ended the order without it', async () => {
    const { received, calls, told, alarms } = receiving([])
    const taken = { status: 'issued', chain: chain(NAME) } as const
    assert.equal(await received.take(ROW, taken, later(20_000)), 'recorded')
    assert.equal(await received.take(ROW, { ...taken, chain: chain(NAME) }, later(20_000)), 'pending')
    assert.deepEqual(calls, ['saveIssuer', 'record', 'saveIssuer', 'record', 'disown'])
    assert.deepEqual([told, alarms()], [[ROW.certificateId], 1])
    const unwanted = receiving([], { isHeld: false })
    await unwanted.received.take(ROW, { status: 'issued', chain: chain('other.test') }, later(20_000))
    assert.deepEqual(unwanted.calls, ['fail with a certificate', 'disown'])
  })

  test('is held no longer than the lease of its row, and not for a fault that stays', async () => {
    for (const [fault, end] of [
      [AWAY, later(0)],
      [new Error('syntax error'), later(20_000)],
    ] as const) {
      const { received, calls } = receiving([fault])
      await assert.rejects(received.take(ROW, { status: 'issued', chain: chain(NAME) }, end), fault)
      assert.deepEqual(calls, [])
    }
  })
})
