/** SQL of authorizations and their challenges: trigger, attempts, release, adoption, deactivation. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Account, Authorization, ChallengeAttempt } from '../../src/domain/records.ts'
import { type Requester, STALE_ACCOUNT } from '../../src/store/account-store.ts'
import { NOBODY } from '../../src/store/challenge-store.ts'
import type { InstancePresence } from '../../src/store/instance-presence.ts'
import { each } from '../support/each.ts'
import { until } from '../support/until.ts'
import {
  aCandidate,
  aName,
  anAccount,
  answers,
  expire,
  inHours,
  newAuthorizationId,
  preAuthorizing,
  useInstances,
  useStores,
  winners,
} from './support.ts'

const VALID: ChallengeAttempt = { status: 'valid', tries: 0, validated: '2026-01-01T00:00:00Z' }
const FAILED: ChallengeAttempt = {
  status: 'invalid',
  tries: 1,
  error: { type: 'urn:ietf:params:acme:error:connection', detail: 'no', status: 400 },
}
const TYPES = ['http-01', 'dns-01'] as const
const RETRY: ChallengeAttempt = { ...FAILED, status: 'processing' }

describe('authorizations', () => {
  const store = useStores()
  let account: Account
  let requester: Requester
  before(async () => {
    ;({ account, requester } = await anAccount(store))
  })

  async function anAuthorization(over: Parameters<typeof aCandidate>[0] = {}, by = requester): Promise<Authorization> {
    const made = await store.authorizations.create(preAuthorizing(by, aCandidate(over)))
    assert.ok(typeof made !== 'symbol')
    return made.authorization
  }

  async function find(authorizationId: string): Promise<Authorization> {
    const found = await store.authorizations.find({ requester, authorizationId })
    assert.ok(found && typeof found !== 'symbol')
    return found
  }

  const triggering = (authorizationId: string, over: object = {}) => ({
    requester,
    authorizationId,
    type: 'http-01' as const,
    instanceId: 1,
    ...over,
  })
  const recording = (authorizationId: string, over: object = {}) => ({
    authorizationId,
    type: 'http-01' as const,
    attempt: VALID,
    outcome: 'valid' as const,
    instanceId: 1,
    ...over,
  })

  const record = (authorizationId: string, over?: object) =>
    store.authorizations.recordAttempt(recording(authorizationId, over))
  const adopt = ({ instanceId }: { instanceId: number }, over: object = {}) =>
    store.authorizations.adopt(instanceId, { types: TYPES, limit: 10, ...over })

  async function trigger(authorizationId: string, over: object = {}) {
    const result = await store.authorizations.trigger(triggering(authorizationId, over))
    assert.ok(result && typeof result !== 'symbol')
    return result
  }

  const lock = (id: string) => ({ text: 'SELECT FROM authorizations WHERE id = $1 FOR UPDATE', values: [id] })
  const expired = (id: string) => expire(store, 'authorizations', id)
  const claim = async (id: string) =>
    (
      await store.sql('SELECT validating_by, validating_since IS NOT NULL AS since FROM authorizations WHERE id = $1', [
        id,
      ])
    )[0]

  const statusOf = async (id: string) =>
    (await store.sql('SELECT status FROM authorizations WHERE id = $1', [id]))[0]?.['status']

  describe('creation and reading', () => {
    test('one is read back as it was made', async () => {
      const candidate = aCandidate({ wildcard: true, offered: ['dns-01'] })
      const made = await anAuthorization(candidate)
      assert.deepEqual(made, {
        id: candidate.id,
        accountId: requester.accountId,
        identifier: candidate.identifier,
        wildcard: true,
        status: 'pending',
        expiresAt: candidate.expiresAt,
        token: candidate.token,
        offered: ['dns-01'],
        attempts: {},
      })
      assert.deepEqual(await find(candidate.id), made)
    })

    test('the valid one for the same identifier is given back in place of another, if it lasts, and no clock was wrong', async () => {
      const identifier = { type: 'dns' as const, value: aName() }
      const first = await anAuthorization({ identifier })
      const second = await anAuthorization({ identifier })
      assert.notEqual(second.id, first.id, 'a pending one is nobody’s to share')
      await trigger(first.id)
      await record(first.id)
      assert.deepEqual(await anAuthorization({ identifier }), await find(first.id))
      const { requester: other } = await anAccount(store)
      for (const [over, by] of [[{ wildcard: true }], [{}, other]] as const)
        assert.equal((await anAuthorization({ identifier, ...over }, by)).status, 'pending')
      for (const left of ['50 minutes', '400 days']) {
        await store.sql('UPDATE authorizations SET expires_at = now() + $2::interval WHERE id = $1', [first.id, left])
        assert.equal((await anAuthorization({ identifier })).status, 'pending', left)
      }
    })

    test('a stale account makes none', async () => {
      const candidate = aCandidate()
      assert.equal(
        await store.authorizations.create(preAuthorizing({ ...requester, keyVersion: 3 }, candidate)),
        STALE_ACCOUNT,
      )
      assert.equal(await store.authorizations.find({ requester, authorizationId: candidate.id }), undefined)
    })

    test('look-ups of one batch each get their own answer, and a bad id fails alone', async () => {
      const one = await anAuthorization()
      const results = await Promise.allSettled([
        store.authorizations.find({ requester, authorizationId: newAuthorizationId() }),
        store.authorizations.find({ requester: { ...requester, keyVersion: 3 }, authorizationId: one.id }),
        store.authorizations.find({ requester, authorizationId: 'no uuid' }),
        store.authorizations.find({ requester, authorizationId: one.id }),
      ])
      assert.deepEqual(answers(results), [undefined, STALE_ACCOUNT, 'failed', one])
    })

    for (const status of ['pending', 'valid'] as const) {
      test(`a ${status} one past its end reads as expired, and nothing moves it any more`, async () => {
        const { id } = await anAuthorization()
        await trigger(id)
        if (status === 'valid') await record(id)
        await expired(id)
        assert.equal((await find(id)).status, 'expired')
        assert.equal(await record(id), false)
        assert.equal(await store.authorizations.deactivate(requester, id), undefined)
        assert.equal((await trigger(id, { type: 'dns-01' })).moved, false)
      })
    }
  })

  describe('trigger (RFC 8555 §7.5.1)', () => {
    test('claims a pending challenge for the instance, once', async () => {
      const { id } = await anAuthorization()
      const first = await trigger(id, { instanceId: 77 })
      assert.equal(first.moved, true)
      assert.equal(first.mine, true)
      const thumbprint = (await store.accounts.find(requester.accountId))?.thumbprint
      assert.deepEqual(first.authorization.attempts, { 'http-01': { status: 'processing', tries: 0, thumbprint } })
      assert.deepEqual(await claim(id), { validating_by: 77, since: true })
      const second = await trigger(id, { instanceId: 78 })
      assert.deepEqual([second.moved, second.mine], [false, false])
      assert.deepEqual(second.authorization, first.authorization)
      const repeat = await trigger(id, { instanceId: 77 })
      assert.deepEqual([repeat.moved, repeat.mine], [false, true])
      assert.deepEqual(await claim(id), { validating_by: 77, since: true })
    })

    test('of one challenge several times in one batch moves it once, and all see it processing', async () => {
      const { id } = await anAuthorization()
      const results = await Promise.all(Array.from({ length: 5 }, () => trigger(id)))
      assert.equal(winners(results.map(({ moved }) => moved)), 1)
      for (const { authorization } of results) assert.equal(authorization.attempts['http-01']?.status, 'processing')
    })

    test('of two challenges of one authorization in one batch moves both', async () => {
      const { id } = await anAuthorization()
      const results = await Promise.all([trigger(id), trigger(id, { type: 'dns-01' })])
      assert.equal(winners(results.map(({ moved }) => moved)), 2)
      assert.deepEqual(Object.keys((await find(id)).attempts).sort(), ['dns-01', 'http-01'])
    })

    test('of a second challenge through another instance leaves both to the first: whoever validates one validates all', async () => {
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 77 })
      const second = await trigger(id, { instanceId: 78, type: 'dns-01' })
      assert.deepEqual([second.moved, second.mine], [true, false])
      assert.equal((await claim(id))?.['validating_by'], 77)
      assert.equal(await record(id, { type: 'dns-01', instanceId: 78 }), false)
      assert.equal(await record(id, { type: 'dns-01', instanceId: 77 }), true)
    })

    test('by two instances: one wins, and both see it processing', async () => {
      const { id } = await anAuthorization()
      const results = await store.meetAt(lock(id), 2, () =>
        Promise.all([
          store.authorizations.trigger(triggering(id)),
          store.other.authorizations.trigger(triggering(id, { instanceId: 2 })),
        ]),
      )
      assert.equal(winners(results.map((result) => typeof result === 'object' && result.moved)), 1)
      for (const result of results) {
        assert.ok(typeof result === 'object')
        assert.equal(result.authorization.attempts['http-01']?.status, 'processing')
      }
    })

    test('while another instance deactivates the authorization sees it deactivated', async () => {
      const { id } = await anAuthorization()
      const result = await store.meetAt(
        { text: "UPDATE authorizations SET status = 'deactivated' WHERE id = $1", values: [id] },
        1,
        () => trigger(id),
      )
      assert.equal(result.moved, false)
      assert.equal(result.authorization.status, 'deactivated')
    })

    test('of a type that is not offered moves nothing', async () => {
      const { id } = await anAuthorization({ offered: ['dns-01'] })
      assert.equal((await trigger(id)).moved, false)
      assert.deepEqual((await find(id)).attempts, {})
    })

    test('of another account is as if there were none, and by a stale account is stale', async () => {
      const { id } = await anAuthorization()
      const { requester: stranger } = await anAccount(store)
      const [foreign, stale, unknown] = await Promise.all([
        store.authorizations.trigger(triggering(id, { requester: stranger })),
        store.authorizations.trigger(triggering(id, { requester: { ...requester, keyVersion: 4 } })),
        store.authorizations.trigger(triggering(newAuthorizationId())),
      ])
      assert.deepEqual([foreign, stale, unknown], [undefined, STALE_ACCOUNT, undefined])
      assert.deepEqual((await find(id)).attempts, {})
    })

    test('batches of two instances with the same challenges in opposite orders all end', async () => {
      const ids = await Promise.all(Array.from({ length: 100 }, async () => (await anAuthorization()).id))
      const results = await Promise.all([
        ...ids.map((id) => store.authorizations.trigger(triggering(id))),
        ...ids.toReversed().map((id) => store.other.authorizations.trigger(triggering(id))),
      ])
      assert.equal(winners(results.map((result) => typeof result === 'object' && result.moved)), ids.length)
    })
  })

  test('who triggers or adopts is told of the keys the account had before, and of its former URL', async () => {
    const account = await anAccount(store)
    const [first, second, third] = [account.account.thumbprint, 'second', 'third']
    const change = async (keyVersion: number, thumbprint: string) => {
      const key = { jwk: '{"kty":"test"}', thumbprint: `${thumbprint}-${account.account.id}` }
      assert.ok(await store.accounts.changeKey({ ...account.requester, keyVersion }, key))
      return key.thumbprint
    }
    const formerly = [first, await change(1, second)]
    await change(2, third)
    const by = { ...account.requester, keyVersion: 3 }
    const { id } = await anAuthorization({}, by)
    for (const moved of [true, false]) {
      const triggered = await store.authorizations.trigger(triggering(id, { requester: by, instanceId: 605 }))
      assert.ok(typeof triggered === 'object')
      assert.deepEqual([triggered.moved, triggered.formerThumbprints], [moved, formerly])
    }
    const path = `/old/acct/${account.account.id}`
    await store.sql('INSERT INTO account_paths VALUES ($1, $2)', [path, account.account.id])
    const adopted = (await store.authorizations.readopt(605, [id])).find(({ authorization }) => authorization.id === id)
    assert.deepEqual([adopted?.formerThumbprints, adopted?.accountPath], [formerly, path])
    await store.authorizations.release(605)
  })

  test('of the keys an account had before the newest ten count, however many there were', async () => {
    const account = await anAccount(store)
    const thumbprints = Array.from({ length: 40 }, (_, i) => `key-${i}-of-${account.account.id}-filling-43-chars`)
    for (const [i, thumbprint] of thumbprints.entries())
      assert.ok(await store.accounts.changeKey({ ...account.requester, keyVersion: i + 1 }, { jwk: '{}', thumbprint }))
    const by = { ...account.requester, keyVersion: thumbprints.length + 1 }
    const { id } = await anAuthorization({}, by)
    const triggered = await store.authorizations.trigger(triggering(id, { requester: by, instanceId: 606 }))
    assert.deepEqual(typeof triggered === 'object' && triggered.formerThumbprints, thumbprints.slice(-11, -1))
    await store.authorizations.release(606)
  })

  describe('attempts', () => {
    const CASES = [
      { outcome: 'valid', attempt: VALID, status: 'valid' },
      { outcome: 'invalid', attempt: FAILED, status: 'invalid' },
      { outcome: null, attempt: RETRY, status: 'pending' },
    ] as const

    const unclaimed = (over: object = {}) => ({ unclaimed: { thumbprint: account.thumbprint }, ...over })

    for (const { outcome, attempt, status } of CASES)
      for (const isClaimed of [true, false]) {
        const end = `that ends ${outcome ?? 'with another to follow'}`
        test(`one ${end} leaves the authorization ${status}, ${isClaimed ? 'with' : 'also without'} a claim`, async () => {
          const { id } = await anAuthorization()
          if (isClaimed) await trigger(id)
          const over = { attempt, outcome }
          assert.equal(await record(id, isClaimed ? over : unclaimed(over)), true)
          const found = await find(id)
          assert.deepEqual([found.status, found.attempts], [status, { 'http-01': attempt }])
          assert.deepEqual(await claim(id), { validating_by: outcome ? null : 1, since: outcome === null })
        })
      }

    test('of a challenge that was never triggered is not recorded', async () => {
      const { id } = await anAuthorization()
      assert.equal(await record(id), false)
      assert.equal((await find(id)).status, 'pending')
    })

    test('a proof that is good for less long ends the authorization sooner, one for longer does not prolong it', async () => {
      for (const [validForSeconds, expected] of [
        [60, 60],
        [1e9, 3600],
      ] as const) {
        const { id } = await anAuthorization({ expiresAt: inHours(1) })
        await trigger(id)
        assert.equal(await record(id, { validForSeconds }), true)
        const seconds = ((await find(id)).expiresAt.getTime() - Date.now()) / 1000
        assert.ok(Math.abs(seconds - expected) < 10, `${seconds}`)
      }
    })

    test('under a claim that was taken over is not recorded', async () => {
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 7 })
      assert.equal(await record(id, { instanceId: 8 }), false)
      assert.equal(await record(id, { instanceId: 7 }), true)
    })

    describe('made before there was a claim', () => {
      test('is recorded when the claim came meanwhile, and the trigger that comes after it sees how it ended', async () => {
        const [claimed, decided] = [(await anAuthorization()).id, (await anAuthorization()).id]
        await trigger(claimed)
        assert.equal(await record(claimed, unclaimed()), true)
        assert.equal(await record(decided, unclaimed()), true)
        const after = await trigger(decided)
        assert.deepEqual([after.moved, after.authorization.status], [false, 'valid'])
      })

      test('is not recorded where another instance has claimed, for that or another challenge', async () => {
        for (const type of ['http-01', 'dns-01'] as const) {
          const { id } = await anAuthorization()
          await trigger(id, { instanceId: 7, type })
          assert.equal(await record(id, unclaimed()), false)
          assert.equal((await find(id)).status, 'pending')
          assert.equal((await claim(id))?.['validating_by'], 7)
        }
      })

      test('is recorded beside another challenge that this instance has claimed', async () => {
        const { id } = await anAuthorization()
        await trigger(id, { type: 'dns-01' })
        assert.equal(await record(id, unclaimed()), true)
        assert.equal((await find(id)).status, 'valid')
      })

      test('is not recorded a second time, nor for what is decided or past its end', async () => {
        const [twice, gone, late] = await Promise.all([anAuthorization(), anAuthorization(), anAuthorization()])
        assert.equal(await record(twice.id, unclaimed()), true)
        const failed = { attempt: FAILED, outcome: 'invalid' }
        assert.equal(await record(twice.id, unclaimed(failed)), false)
        await store.authorizations.deactivate(requester, gone.id)
        assert.equal(await record(gone.id, unclaimed()), false)
        await expired(late.id)
        assert.equal(await record(late.id, unclaimed()), false)
      })

      test('is not recorded for an account that has another key by now, or is deactivated (RFC 8555 §7.3.5, §7.3.6)', async () => {
        const [rekeyed, gone] = [await anAccount(store), await anAccount(store)]
        const first = await anAuthorization({}, rekeyed.requester)
        const second = await anAuthorization({}, gone.requester)
        await store.accounts.changeKey(rekeyed.requester, { jwk: '{}', thumbprint: 'another'.padEnd(43, '-') })
        await store.accounts.deactivate(gone.requester)
        for (const [{ id }, { thumbprint }] of [
          [first, rekeyed.account],
          [second, gone.account],
        ] as const)
          assert.equal(await record(id, { unclaimed: { thumbprint } }), false)
        assert.notEqual(await statusOf(first.id), 'valid')
        assert.notEqual(await statusOf(second.id), 'valid')
      })

      test('is not recorded for a challenge that was claimed meanwhile with another key (RFC 8555 §8.1)', async () => {
        const { account, requester: before } = await anAccount(store)
        const { id } = await anAuthorization({}, before)
        await store.accounts.changeKey(before, { jwk: '{}', thumbprint: `new-${before.accountId}` })
        await store.authorizations.trigger(
          triggering(id, { requester: { ...before, keyVersion: before.keyVersion + 1 } }),
        )
        const result = recording(id, { unclaimed: { thumbprint: account.thumbprint } })
        assert.equal(await store.authorizations.recordAttempt(result), false)
        const { 'http-01': attempt } = (await find(id)).attempts
        assert.deepEqual([attempt?.status, attempt?.thumbprint], ['processing', `new-${before.accountId}`])
      })

      test('while another instance claims: either it is recorded, or the other has the claim', async () => {
        const { id } = await anAuthorization()
        const [recorded, triggered] = await store.meetAt(lock(id), 2, () =>
          Promise.all([record(id, unclaimed()), store.other.authorizations.trigger(triggering(id, { instanceId: 2 }))]),
        )
        assert.ok(typeof triggered === 'object')
        assert.equal(recorded, !triggered.moved)
        assert.equal((await find(id)).status, recorded ? 'valid' : 'pending')
      })
    })

    test('in one batch for one challenge: the first decides', async () => {
      const { id } = await anAuthorization()
      await trigger(id)
      const recorded = await Promise.all([
        record(id, { attempt: RETRY, outcome: null }),
        record(id),
        record(id, { attempt: FAILED, outcome: 'invalid' }),
      ])
      assert.deepEqual(recorded, [true, true, false])
      assert.equal((await find(id)).status, 'valid')
    })

    test('by two instances with opposite verdicts: one decides', async () => {
      const { id } = await anAuthorization()
      await trigger(id)
      const recorded = await store.meetAt(lock(id), 2, () =>
        Promise.all([
          record(id),
          store.other.authorizations.recordAttempt(recording(id, { attempt: FAILED, outcome: 'invalid' })),
        ]),
      )
      assert.equal(winners(recorded), 1)
      assert.equal((await find(id)).status, recorded[0] ? 'valid' : 'invalid')
    })

    test('that the database refuses fails alone in its batch', async () => {
      const [good, bad] = [(await anAuthorization()).id, (await anAuthorization()).id]
      await Promise.all([trigger(good), trigger(bad)])
      const poisoned = { ...FAILED, error: { ...FAILED.error, detail: 'a \u0000 in the answer' } }
      const results = await Promise.allSettled([record(bad, { attempt: poisoned, outcome: 'invalid' }), record(good)])
      assert.deepEqual(each(results, 'status'), ['rejected', 'fulfilled'])
      assert.equal((await find(good)).status, 'valid')
      assert.equal((await find(bad)).status, 'pending')
    })
  })

  describe('deactivation (RFC 8555 §7.5.2)', () => {
    test('ends a pending and a valid one, and is final', async () => {
      for (const validated of [false, true]) {
        const { id } = await anAuthorization()
        await trigger(id)
        if (validated) await record(id)
        assert.equal((await store.authorizations.deactivate(requester, id))?.status, 'deactivated')
        assert.deepEqual(await claim(id), { validating_by: null, since: false })
        assert.equal(await store.authorizations.deactivate(requester, id), undefined)
        assert.equal(await record(id), false)
      }
    })

    test('is for the holder with its current key only', async () => {
      const { id } = await anAuthorization()
      const { requester: stranger } = await anAccount(store)
      assert.equal(await store.authorizations.deactivate(stranger, id), undefined)
      assert.equal(await store.authorizations.deactivate({ ...requester, keyVersion: 5 }, id), undefined)
      assert.equal((await find(id)).status, 'pending')
    })

    test('by two instances: one wins', async () => {
      const { id } = await anAuthorization()
      const results = await store.meetAt(lock(id), 2, () =>
        Promise.all([
          store.authorizations.deactivate(requester, id),
          store.other.authorizations.deactivate(requester, id),
        ]),
      )
      assert.equal(results.filter((result) => result !== undefined).length, 1)
    })
  })

  describe('a deactivated account (RFC 8555 §7.3.6)', () => {
    test('gets no valid authorization out of a validation that runs', async () => {
      const { requester: holder } = await anAccount(store)
      const { id } = await anAuthorization({}, holder)
      await trigger(id, { requester: holder })
      await store.accounts.deactivate(holder)
      assert.equal(await record(id), false)
      assert.equal(await statusOf(id), 'deactivated')
    })

    test('gets no valid authorization when validation and deactivation happen at once', async () => {
      for (let i = 0; i < 20; i++) {
        const { requester: holder } = await anAccount(store)
        const { id } = await anAuthorization({}, holder)
        await trigger(id, { requester: holder })
        await store.meetAt(lock(id), 2, () => Promise.all([store.other.accounts.deactivate(holder), record(id)]))
        assert.equal(await statusOf(id), 'deactivated')
      }
    })
  })

  describe('release', () => {
    test('makes the challenges of this instance pending again, and no others', async () => {
      const mine = await anAuthorization()
      const failed = await anAuthorization({ offered: ['http-01', 'dns-01'] })
      const others = await anAuthorization()
      await trigger(mine.id, { instanceId: 501 })
      await trigger(failed.id, { instanceId: 501 })
      await trigger(others.id, { instanceId: 502 })
      assert.equal(await store.authorizations.release(501), 2)
      assert.equal((await find(mine.id)).attempts['http-01']?.status, 'pending')
      assert.deepEqual(await claim(mine.id), { validating_by: NOBODY, since: true })
      assert.equal((await find(others.id)).attempts['http-01']?.status, 'processing')
      assert.equal(await store.authorizations.release(501), 0)
      assert.equal((await trigger(mine.id, { instanceId: 502 })).moved, true)
    })

    test('keeps the tries and the last error, and only the processing challenges move', async () => {
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 504 })
      await record(id, { attempt: RETRY, outcome: null, instanceId: 504 })
      await trigger(id, { instanceId: 504, type: 'dns-01' })
      assert.equal(await store.authorizations.release(504), 1)
      const { attempts } = await find(id)
      assert.deepEqual(attempts['http-01'], { ...RETRY, status: 'pending' })
      assert.equal(attempts['dns-01']?.status, 'pending')
    })

    test('lets no attempt that was still running decide', async () => {
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 505 })
      await store.authorizations.release(505)
      assert.equal(await record(id, { instanceId: 505 }), false)
      assert.equal((await find(id)).status, 'pending')
    })

    test('keeps what is decided', async () => {
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 503 })
      await record(id, { instanceId: 503 })
      assert.equal(await store.authorizations.release(503), 0)
      assert.equal((await find(id)).status, 'valid')
    })
  })

  describe('adoption', () => {
    const announce = useInstances(store)
    /** Live instances, with nothing left behind that they could take. */
    async function instances(count: number): Promise<InstancePresence[]> {
      await store.sql('UPDATE authorizations SET validating_by = NULL, validating_since = NULL')
      return Promise.all(Array.from({ length: count }, () => announce()))
    }
    const silentFor = (seconds: number, id: string) =>
      store.sql(
        'UPDATE authorizations SET validating_since = validating_since - make_interval(secs => $1) WHERE id = $2',
        [seconds, id],
      )

    test('takes the challenges of a dead instance, whole, and leaves those of a live one', async () => {
      const [me, dead, alive] = await instances(3)
      assert.ok(me && dead && alive)
      const left = await anAuthorization()
      const worked = await anAuthorization()
      await trigger(left.id, { instanceId: dead.instanceId })
      await trigger(left.id, { instanceId: dead.instanceId, type: 'dns-01' })
      await trigger(worked.id, { instanceId: alive.instanceId })
      assert.deepEqual(await adopt(me, { staleSeconds: 600 }), [])

      // As a killed process leaves it: the connection is gone, nothing was said.
      await store.sql('SELECT pg_terminate_backend(pid) FROM pg_locks WHERE classid = 712100 AND objid = $1', [
        dead.instanceId,
      ])
      await until('the end of an instance', async () => !(await me.liveInstances()).includes(dead.instanceId))
      const adopted = await adopt(me, { staleSeconds: 600 })
      assert.deepEqual(adopted.map(({ type }) => type).sort(), ['dns-01', 'http-01'])
      const [{ authorization, thumbprint }] = adopted as [(typeof adopted)[0]]
      assert.equal(authorization.id, left.id)
      assert.equal(thumbprint, (await store.accounts.find(requester.accountId))?.thumbprint)
      assert.equal((await claim(left.id))?.['validating_by'], me.instanceId)
      assert.equal((await claim(worked.id))?.['validating_by'], alive.instanceId)
      assert.deepEqual(await adopt(me, { staleSeconds: 600 }), [])
    })

    test('takes what an instance released, processing again with its tries and the key that triggered it', async () => {
      const me = (await instances(1))[0]!
      const { account, requester: holder } = await anAccount(store)
      const { id } = await anAuthorization({}, holder)
      await trigger(id, { instanceId: 600, requester: holder })
      const attempt = { ...RETRY, thumbprint: account.thumbprint }
      await record(id, { attempt, outcome: null, instanceId: 600 })
      await store.authorizations.release(600)
      const changed = await store.accounts.changeKey(holder, { jwk: '{}', thumbprint: `new ${id}` })
      assert.ok(changed && !('taken' in changed))
      const adopted = await adopt(me)
      assert.equal(adopted.length, 1)
      assert.equal(adopted[0]?.thumbprint, account.thumbprint)
      assert.deepEqual(adopted[0]?.authorization.attempts['http-01'], attempt)
    })

    test('leaves what it does not validate to others', async () => {
      const me = (await instances(1))[0]!
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: NOBODY, type: 'dns-01' })
      assert.deepEqual(await adopt(me, { types: ['http-01'] }), [])
      assert.equal((await adopt(me, { types: ['dns-01'] })).length, 1)
    })

    test('takes validations of a live but silent instance on request, and that instance records nothing more', async () => {
      const [me, silent] = (await instances(2)) as [InstancePresence, InstancePresence]
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: silent.instanceId })
      await silentFor(60, id)
      assert.deepEqual(await adopt(me), [])
      assert.deepEqual(await adopt(me, { staleSeconds: 120 }), [])
      const adopted = await adopt(me, { staleSeconds: 59 })
      assert.equal(adopted.length, 1)
      const { instanceId } = silent
      assert.equal(await record(id, { instanceId }), false)
      assert.equal(await store.authorizations.renew({ authorizationId: id, instanceId }), false)
    })

    test('a retry that is not due is no silence', async () => {
      const [me, patient] = (await instances(2)) as [InstancePresence, InstancePresence]
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: patient.instanceId })
      const over = { attempt: RETRY, outcome: null, retryInMs: 120_000, instanceId: patient.instanceId }
      await record(id, over)
      await silentFor(60, id)
      assert.deepEqual(await adopt(me, { staleSeconds: 30 }), [])
    })

    test('takes nothing for an instance that has lost its own presence: then all others look dead, too', async () => {
      const me = (await instances(1))[0]!
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 607 })
      assert.deepEqual(await adopt({ instanceId: 608 }), [])
      assert.equal((await adopt(me)).length, 1)
    })

    test('of a deactivated account takes nothing', async () => {
      const me = (await instances(1))[0]!
      const { requester: holder } = await anAccount(store)
      const { id } = await anAuthorization({}, holder)
      await trigger(id, { instanceId: 606, requester: holder })
      await store.accounts.deactivate(holder)
      assert.deepEqual(await adopt(me), [])
    })

    test('its own without news are overdue and can be taken up again', async () => {
      await instances(0)
      const { id } = await anAuthorization()
      await trigger(id, { instanceId: 601 })
      assert.deepEqual(await store.authorizations.overdue(601), [])
      await silentFor(60, id)
      assert.deepEqual(await store.authorizations.overdue(601), [{ authorizationId: id, types: ['http-01'] }])
      assert.deepEqual(await store.authorizations.readopt(602, [id]), [])
      assert.equal((await store.authorizations.readopt(601, [id])).length, 1)
      assert.deepEqual(await store.authorizations.overdue(601), [])
    })

    test('by two instances of the same challenges: each is taken by one, at most as many as asked for', async () => {
      const [a, b] = (await instances(2)) as [InstancePresence, InstancePresence]
      const ids = await Promise.all(
        Array.from({ length: 12 }, async () => {
          const { id } = await anAuthorization()
          await trigger(id, { instanceId: 602 })
          return id
        }),
      )
      const [mine, others] = await Promise.all([
        adopt(a, { staleSeconds: 600, limit: 8 }),
        store.other.authorizations.adopt(b.instanceId, { types: TYPES, staleSeconds: 600, limit: 8 }),
      ])
      assert.ok(mine.length <= 8 && others.length <= 8)
      const taken = [...mine, ...others].map(({ authorization }) => authorization.id)
      assert.equal(new Set(taken).size, taken.length)
      const rest = await adopt(a, { staleSeconds: 600, limit: 100 })
      assert.deepEqual([...taken, ...rest.map(({ authorization }) => authorization.id)].sort(), ids.sort())
    })

    test('leaves alone what is decided, expired or nobody’s', async () => {
      await instances(0)
      const decided = await anAuthorization()
      await trigger(decided.id, { instanceId: 603 })
      await record(decided.id, { instanceId: 603 })
      const late = await anAuthorization({ expiresAt: inHours(1) })
      await trigger(late.id, { instanceId: 603 })
      await expired(late.id)
      await anAuthorization()
      assert.deepEqual(await store.authorizations.adopt(604, { types: TYPES, staleSeconds: 0, limit: 100 }), [])
    })
  })
})
