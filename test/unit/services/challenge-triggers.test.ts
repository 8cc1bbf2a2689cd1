/** Triggers (RFC 8555 §7.5.1): what is tried at once, what is claimed first, and what is handed over. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Authorization, ChallengeAttempt } from '../../../src/domain/records.ts'
import {
  ChallengeTriggers,
  type RecordedAttempt,
  type ValidationRequest,
} from '../../../src/services/challenge-triggers.ts'
import { createValidationWaits } from '../../../src/services/validation-waits.ts'
import { type BuiltInType, CHALLENGE_TYPES, type ChallengeType } from '../../../src/shared/protocol/challenge.ts'
import type { AuthorizationStore } from '../../../src/store/authorization-store.ts'
import type { Trigger } from '../../../src/store/challenge-store.ts'
import { each } from '../../support/each.ts'

const AUTHORIZATION = '019a0000-0000-7000-8000-0000000000a0'
const REQUESTER = { accountId: 'an account', keyVersion: 3 }
const VALID: RecordedAttempt = {
  type: 'http-01',
  attempt: { status: 'valid', tries: 0, validated: '2026-01-01T00:00:00Z' },
  outcome: 'valid',
  isBounded: false,
}

const PENDING: Authorization = {
  id: AUTHORIZATION,
  accountId: REQUESTER.accountId,
  identifier: { type: 'dns', value: 'host.example' },
  wildcard: false,
  status: 'pending',
  expiresAt: new Date(Date.now() + 3_600_000),
  token: 'token',
  offered: ['http-01', 'dns-01', 'tls-alpn-01', 'dns-persist-01'],
  attempts: {},
}

const withAttempt = (type: ChallengeType, attempt: ChallengeAttempt): Authorization => ({
  ...PENDING,
  status: attempt.status === 'valid' ? 'valid' : 'pending',
  attempts: { [type]: attempt },
})

describe('a challenge that is triggered', () => {
  let remembered: Authorization | undefined
  let claims: Trigger[]
  let handedOver: ValidationRequest[]
  /** What the supervisor does with what it is handed over. */
  let supervisor: (request: ValidationRequest) => unknown
  let triggers: ChallengeTriggers
  /** As the database has it after the claim. */
  let moved: boolean

  const tell = (recorded?: RecordedAttempt) =>
    triggers.ended([{ authorizationId: AUTHORIZATION, ...(recorded && { recorded }) }])

  beforeEach(() => {
    remembered = PENDING
    claims = []
    handedOver = []
    supervisor = () => undefined
    moved = true
    const store: Pick<AuthorizationStore, 'find' | 'trigger'> = {
      find: async () => remembered ?? PENDING,
      async trigger(command) {
        claims.push(command)
        const authorization = withAttempt(command.type as ChallengeType, {
          status: 'processing',
          tries: 0,
          thumbprint: 'thumbprint',
        })
        return { authorization, moved, mine: true, formerThumbprints: ['former'] }
      },
    }
    const waits = createValidationWaits({ paused: () => undefined, resumed: () => undefined })
    triggers = new ChallengeTriggers({
      store: store as AuthorizationStore,
      instanceId: 7,
      isValidatedHere: (type) => type !== 'dns-01',
      dispatch(request) {
        handedOver.push(request)
        supervisor(request)
      },
      recall: () => remembered,
      remember(_id, { type, attempt }) {
        remembered = withAttempt(type, attempt)
      },
      waits,
    })
  })

  async function triggered(type: BuiltInType = 'http-01') {
    const id = `${AUTHORIZATION.slice(0, -1)}${CHALLENGE_TYPES[type].digit}`
    const { authorization } = await triggers.trigger(id, {
      requester: REQUESTER,
      thumbprint: 'thumbprint',
      requestId: 'request',
    })
    return authorization.attempts[type]?.status ?? 'pending'
  }

  test('and recorded at once is answered with its outcome, and never claimed', async () => {
    supervisor = () => setTimeout(tell, 5, VALID)
    assert.equal(await triggered(), 'valid')
    assert.deepEqual(claims, [])
    const [request] = handedOver
    assert.deepEqual([handedOver.length, request?.isUnclaimed, request?.tries], [1, true, 0])
  })

  test('and not over soon is claimed before it is answered, and handed over with its claim', async () => {
    const began = performance.now()
    assert.equal(await triggered(), 'processing')
    assert.ok(performance.now() - began >= 99)
    assert.deepEqual([claims.length, claims[0]?.instanceId], [1, 7])
    const found = handedOver.map(({ isUnclaimed, isRepeat }) => [isUnclaimed, isRepeat])
    assert.deepEqual(found, [
      [true, undefined],
      [undefined, false],
    ])
  })

  test('and given up by the supervisor is claimed and handed over again', async () => {
    supervisor = ({ isUnclaimed }) => isUnclaimed && setTimeout(tell, 5)
    assert.equal(await triggered(), 'processing')
    const found = handedOver.map(({ isUnclaimed, formerThumbprints }) => [isUnclaimed, formerThumbprints])
    assert.deepEqual(found, [
      [true, []],
      [undefined, ['former']],
    ])
  })

  test('by somebody else meanwhile is handed over as a repeat (RFC 8555 §8.2)', async () => {
    moved = false
    assert.equal(await triggered(), 'processing')
    assert.deepEqual(each(handedOver, 'isRepeat'), [undefined, true])
  })

  test('twice at the same time is tried once more, and both are answered with how it ended', async () => {
    supervisor = () => handedOver.length === 1 && setTimeout(tell, 20, VALID)
    assert.deepEqual(await Promise.all([triggered(), triggered()]), ['valid', 'valid'])
    assert.deepEqual(claims, [])
  })

  test('beside another one that is to be tried again is claimed before it is answered', async () => {
    const attempt = { status: 'processing', tries: 1, thumbprint: 'thumbprint' } as const
    supervisor = ({ type, isUnclaimed }) => {
      if (type === 'http-01' && isUnclaimed) setTimeout(tell, 5, { ...VALID, attempt, outcome: null })
    }
    const [, second] = await Promise.all([triggered(), triggered('tls-alpn-01')])
    assert.equal(second, 'processing')
    assert.deepEqual(each(claims, 'type'), ['tls-alpn-01'])
  })

  for (const [what, known] of [
    ['that this thread does not remember', undefined],
    ['that was tried before', withAttempt('http-01', { status: 'processing', tries: 1 })],
    ['beside another one that was tried', withAttempt('dns-01', { status: 'processing', tries: 0 })],
  ] as const)
    test(`${what} is claimed first`, async () => {
      remembered = known
      supervisor = () => assert.equal(claims.length, 1)
      assert.equal(await triggered(), 'processing')
      const found = handedOver.map(({ isUnclaimed, thumbprint }) => [isUnclaimed, thumbprint])
      assert.deepEqual(found, [[undefined, 'thumbprint']])
    })

  test('and looks at former keys is claimed first, which tells them', async () => {
    assert.equal(await triggered('dns-persist-01'), 'processing')
    const found = handedOver.map(({ isUnclaimed, formerThumbprints }) => [isUnclaimed, formerThumbprints])
    assert.deepEqual(found, [[undefined, ['former']]])
  })

  test('and validated elsewhere is claimed for nobody, and not handed over', async () => {
    await triggered('dns-01')
    assert.deepEqual([claims[0]?.instanceId, handedOver.length], [0, 0])
  })
})
