/** What the statements of certificates' lives are given: one account, order, authorization and certificate each. */

import { randomBytes } from 'node:crypto'
import { uuidv7 } from '../../src/lib/uuid.ts'
import type { NewAccount, Requester } from '../../src/store/account-store.ts'
import type { AttemptResult, Trigger } from '../../src/store/challenge-store.ts'
import type { IssuanceIntent, IssuedCertificate } from '../../src/store/issuance-store.ts'
import type { NewOrder } from '../../src/store/order-store.ts'

export interface Life {
  account: NewAccount
  requester: Requester
  authorizationId: string
  order: NewOrder
  trigger: Trigger
  attempt: AttemptResult
  intent: IssuanceIntent
  issued: IssuedCertificate
}

const DAY_MS = 86_400_000
const INSTANCE = 1
const TBS_BYTES = 400
const CERTIFICATE_BYTES = 500
const TYPE = 'http-01'

export function livesOf(count: number, issuerFingerprint: Buffer): Life[] {
  return Array.from({ length: count }, () => aLife(issuerFingerprint))
}

function aLife(issuerFingerprint: Buffer): Life {
  const now = Date.now()
  const thumbprint = randomBytes(32).toString('base64url')
  const requester = { accountId: uuidv7(now), keyVersion: 1 }
  // A challenge's id is its authorization's with another last digit.
  const authorizationId = `${uuidv7(now).slice(0, -1)}0`
  const orderId = uuidv7(now)
  const name = `${randomBytes(8).toString('hex')}.bench.test`
  const identifier = { type: 'dns', value: name } as const
  const [expiresAt, notAfter] = [new Date(now + 7 * DAY_MS), new Date(now + 90 * DAY_MS)]
  const certificateId = uuidv7(now)
  const coordinate = () => randomBytes(32).toString('base64url')
  return {
    account: {
      id: requester.accountId,
      thumbprint,
      jwk: `{"crv":"P-256","kty":"EC","x":"${coordinate()}","y":"${coordinate()}"}`,
      contacts: [],
      termsAgreed: true,
    },
    requester,
    authorizationId,
    order: {
      id: orderId,
      requester,
      identifiers: [identifier],
      profile: 'default',
      notBefore: undefined,
      notAfter: undefined,
      expiresAt,
      authorizations: [
        {
          id: authorizationId,
          identifier,
          wildcard: false,
          token: randomBytes(32).toString('base64url'),
          offered: [TYPE],
          expiresAt,
        },
      ],
      reuseUntil: expiresAt,
    },
    trigger: { requester, authorizationId, type: TYPE, instanceId: INSTANCE },
    attempt: {
      authorizationId,
      type: TYPE,
      attempt: { status: 'valid', tries: 1, validated: new Date(now).toISOString() },
      outcome: 'valid',
      instanceId: INSTANCE,
    },
    intent: {
      certificateId,
      order: { id: orderId, requester },
      serialNumber: randomBytes(16),
      issuerId: 'bench',
      issuerFingerprint,
      tbs: randomBytes(TBS_BYTES),
      spkiSha256: randomBytes(32),
      instanceId: INSTANCE,
    },
    issued: {
      certificateId,
      der: randomBytes(CERTIFICATE_BYTES),
      names: [name],
      notBefore: new Date(now),
      notAfter,
    },
  }
}
