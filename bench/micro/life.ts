/**
 * What the statements of certificates' lives are given: one account, order, authorization and certificate each, and a second order whose
 * challenge is claimed, which is what becomes of an attempt that takes longer (decisions 52).
 */

import { randomBytes } from 'node:crypto'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import type { NewAccount, Requester } from '../../src/store/account-store.ts'
import type { AttemptResult, Trigger } from '../../src/store/challenge-store.ts'
import type { IssuanceIntent, IssuedCertificate } from '../../src/store/issuance-store.ts'
import type { NonceEpoch, Redemption } from '../../src/store/nonce-store.ts'
import type { NewOrder } from '../../src/store/order-store.ts'
import type { KeyCharge } from '../../src/store/rate-limit-store.ts'

export interface Life {
  account: NewAccount
  requester: Requester
  authorizationId: string
  order: NewOrder
  attempt: AttemptResult
  intent: IssuanceIntent
  issued: IssuedCertificate
  claimed: { order: NewOrder; trigger: Trigger; attempt: AttemptResult }
  redemption: Redemption
  /** Of new-order: its address, and the identifier. */
  charges: { address: KeyCharge; identifier: KeyCharge }
}

/** What all lives share. */
export interface Setting {
  issuerFingerprint: Buffer
  epoch: NonceEpoch
}

const DAY_MS = 86_400_000
const INSTANCE = 1
const TBS_BYTES = 400
const CERTIFICATE_BYTES = 500
const TYPE = 'http-01'

/** The defaults of new-order (docs/configuration.md, security.rate_limits): 300 an hour for an address, 50 a week for an identifier; microseconds. */
const PACES = {
  address: { interval: 12e6, tolerance: 299 * 12e6 },
  identifier: { interval: 12_096e6, tolerance: 49 * 12_096e6 },
}

export function livesOf(count: number, setting: Setting): Life[] {
  return Array.from({ length: count }, () => aLife(setting))
}

function aLife({ issuerFingerprint, epoch }: Setting): Life {
  const now = Date.now()
  const thumbprint = base64url(32)
  const requester = { accountId: uuidv7(now), keyVersion: 1 }
  const { order, authorizationId, name } = anOrder(requester, now)
  const claimed = anOrder(requester, now)
  const certificateId = uuidv7(now)
  const [begin, end] = [new Date(now), new Date(now + 90 * DAY_MS)]
  return {
    account: {
      id: requester.accountId,
      thumbprint,
      jwk: `{"crv":"P-256","kty":"EC","x":"${base64url(32)}","y":"${base64url(32)}"}`,
      contacts: [],
      termsAgreed: true,
    },
    requester,
    authorizationId,
    order,
    attempt: { ...anAttempt(authorizationId, name, now), unclaimed: { thumbprint } },
    intent: {
      certificateId,
      order: { id: order.id, requester },
      serialNumber: randomBytes(16),
      issuerId: 'bench',
      issuerFingerprint,
      tbs: randomBytes(TBS_BYTES),
      spkiSha256: randomBytes(32),
      instanceId: INSTANCE,
    },
    issued: { certificateId, der: randomBytes(CERTIFICATE_BYTES), names: [name], notBefore: begin, notAfter: end },
    claimed: {
      order: claimed.order,
      trigger: { requester, authorizationId: claimed.authorizationId, type: TYPE, instanceId: INSTANCE },
      attempt: anAttempt(claimed.authorizationId, claimed.name, now),
    },
    // Ticks are tenths of a second; a counter has six bytes (services/shared-nonces.ts).
    redemption: {
      epochId: epoch.id,
      tick: Math.floor((now - epoch.madeAtMs) / 100),
      counter: randomBytes(6).readUIntBE(0, 6),
    },
    charges: {
      address: { key: `new_order 300/3600 ${[...randomBytes(4)].join('.')}`, pace: PACES.address },
      identifier: { key: `new_order_per_identifier 50/604800 dns ${name}`, pace: PACES.identifier },
    },
  }
}

function anOrder(requester: Requester, now: number) {
  // A challenge's id is its authorization's with another last digit.
  const authorizationId = `${uuidv7(now).slice(0, -1)}0`
  const name = `${randomBytes(8).toString('hex')}.bench.test`
  const identifier = { type: 'dns', value: name } as const
  const expiresAt = new Date(now + 7 * DAY_MS)
  const order: NewOrder = {
    ...{ id: uuidv7(now), requester, identifiers: [identifier], profile: 'default', expiresAt, reuseUntil: expiresAt },
    ...{ notBefore: undefined, notAfter: undefined },
    authorizations: [
      { id: authorizationId, identifier, wildcard: false, token: base64url(32), offered: [TYPE], expiresAt },
    ],
  }
  return { order, authorizationId, name }
}

/** The first, and it went well. */
function anAttempt(authorizationId: string, name: string, now: number): AttemptResult {
  const at = new Date(now).toISOString()
  return {
    ...{ authorizationId, type: TYPE, instanceId: INSTANCE, outcome: 'valid' },
    attempt: { status: 'valid', tries: 0, validated: at },
    evidence: {
      ...{ type: TYPE, attempt: 1, at, ms: 7, result: 'success', requestId: uuidv7(now) },
      steps: [
        { step: 'resolved', host: name, addresses: ['192.0.2.17'], resolver: '192.0.2.53', aliases: [] },
        { step: 'connected', address: '192.0.2.17', port: 80 },
        { step: 'response', status: 200, bytes: 87 },
        { step: 'finished', durationMs: 7 },
      ],
    },
  }
}

function base64url(bytes: number): string {
  return randomBytes(bytes).toString('base64url')
}
