/**
 * What a decision restricts comes back into a database that lacks it (docs/decisions/decisions-outlive-the-database.md): the
 * act is done in one copy of a database, and its decision brought back in another.
 */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { findMissing } from '../../../src/admin/decisions/account-decisions.ts'
import { RESTORES } from '../../../src/admin/decisions/restores.ts'
import {
  ACME_ACTS,
  type AcmeAct,
  type Decision,
  EFFECTS,
  effectOf,
  type RestrictingAct,
} from '../../../src/domain/decision.ts'
import { queriesOf } from '../../../src/store/slonik.ts'
import { aCertificate, inHours } from '../../store/support.ts'
import { words } from '../../support/words.ts'
import { CASES, type Case, changeKey } from './cases.ts'
import { type At, aKey, call, decisionOf, digestOf, makeWorld, overAcme, type World } from './world.ts'

const isOverAcme = (act: string): act is AcmeAct => (ACME_ACTS as readonly string[]).includes(act)
const isDecision = (made: unknown): made is Decision => typeof made === 'object' && made !== null && 'details' in made
const restore = (at: At, decision: Decision) =>
  at.db.transaction((tx) => RESTORES[decision.act as RestrictingAct](tx, decision))
const lacks = (at: At, decision: Decision) =>
  at.db.transaction(async (tx) =>
    (await findMissing(queriesOf(tx), decision.act as AcmeAct, [decision])).has(decision.id),
  )

describe('a decision that the database lacks', () => {
  let world: World
  before(async () => {
    world = await makeWorld()
  })
  after(() => world.drop())

  async function inCopy<T>(work: (at: At) => Promise<T>): Promise<T> {
    const at = await world.copy()
    try {
      return await work(at)
    } finally {
      await at.end()
    }
  }

  /** @returns the decision, from a database where it is in effect */
  const decided = (act: RestrictingAct, { act: doIt, holds }: Case) =>
    inCopy(async (at) => {
      const made = await doIt(at, world)
      const decision = isDecision(made) ? made : await decisionOf(at, act, 'alice')
      assert.equal(effectOf(decision), 'restricts')
      if (isOverAcme(act)) assert.equal(await lacks(at, decision), false)
      assert.equal(await holds(at, world, decision), true, 'after the act')
      return decision
    })

  for (const [act, cases] of Object.entries(CASES) as [RestrictingAct, readonly Case[]][])
    for (const one of cases)
      test(`${act} ${one.does} again, and once`, async () => {
        const holdsBefore = (at: At) => one.holds(at, world, undefined)
        const decision = await decided(act, one)
        if (one.isAct) assert.equal(await inCopy(holdsBefore), false, 'before the act')
        await inCopy(async (at) => {
          if (!one.isAct) assert.equal(await holdsBefore(at), false, 'before the act')
          if (isOverAcme(act)) assert.equal(await lacks(at, decision), true)
          assert.equal(await restore(at, decision), one.outcome ?? 'restored')
          const after = await digestOf(at)
          await restore(at, decision)
          assert.deepEqual(await digestOf(at), after, 'a second time')
          if (isOverAcme(act) && act !== 'acme.update_contacts') assert.equal(await lacks(at, decision), false)
          assert.equal(await one.holds(at, world, decision), true, 'after it is back')
        })
      })

  /** The newest decision of an administrator, done in a copy. */
  const done = (act: RestrictingAct, doIt: (at: At) => Promise<unknown>, condition?: string) =>
    inCopy(async (at) => {
      await doIt(at)
      return decisionOf(at, act, 'alice', condition)
    })
  const accountIn = (at: At) =>
    at.one<{ status: string; thumbprint: string; key_version: number }>(
      'SELECT * FROM accounts WHERE id = $1',
      world.account,
    )

  test('a key change wins over one by whoever has the former key', async () => {
    const decision = await inCopy((at) => changeKey(at, world))
    await inCopy(async (at) => {
      await at.stores.accounts.changeKey(world.requester, aKey())
      assert.equal(await lacks(at, decision), true)
      assert.equal(await restore(at, decision), 'restored')
      const { thumbprint, key_version } = (await accountIn(at)) ?? {}
      assert.deepEqual([thumbprint, key_version], [decision.details['thumbprint'], 3])
    })
  })

  test('a key change to a key that is taken or blocked ends the account, so that the former key signs nothing', async () => {
    const key = aKey()
    const decision = overAcme('acme.change_key', { account_id: world.account, key_version: 2, ...key })
    const block = "INSERT INTO blocked_keys (spki_sha256) VALUES (decode($1, 'hex'))"
    for (const prepare of [
      (at: At) => at.stores.accounts.create({ id: decision.id, contacts: [], termsAgreed: true, ...key }),
      (at: At) => at.sql(block, [key.spki_sha256]),
    ])
      await inCopy(async (at) => {
        await prepare(at)
        assert.equal(await restore(at, decision), 'partly')
        const { status, thumbprint } = (await accountIn(at)) ?? {}
        assert.deepEqual([status, thumbprint], ['deactivated', world.key.thumbprint])
      })
  })

  test('contacts that were changed since are not missing', async () => {
    const changed_at = '2020-01-01 00:00:00.123456+00'
    const contacts = overAcme('acme.update_contacts', { account_id: world.account, contacts: [], changed_at })
    await inCopy(async (at) => {
      await at.stores.accounts.updateContacts(world.requester, ['mailto:newer@example.com'])
      assert.equal(await lacks(at, contacts), false)
    })
  })

  test('an account that is not there is told; what was decided about it is not missing', async () => {
    const nobody = { account_id: world.team, authorization_id: world.team, key_version: 2, thumbprint: 'x' }
    await inCopy(async (at) => {
      for (const act of ACME_ACTS.filter((act) => act !== 'acme.prove_compromise' && act !== 'acme.revoke'))
        assert.equal(await lacks(at, overAcme(act, nobody)), act === 'acme.new_account', act)
      assert.equal(await lacks(at, overAcme('acme.new_account', { account_id: world.account })), false)
    })
  })

  test('the last admin comes not back, if a later one has deleted it', async () => {
    const { admin } = world
    const decision = overAcme('user.delete', {})
    const entry = {
      sequence: 1,
      mac: '',
      id: decision.id,
      user_id: null,
      target_user_id: admin.userId,
      ip_address: null,
    }
    await inCopy(async (at) => {
      assert.equal(await restore(at, { ...decision, entry }), 'restored')
      assert.equal((await at.sql("SELECT FROM admin_users WHERE role = 'admin'")).length, 0)
    })
  })

  test('a profile that is looser than the one that an account has stays away', async () => {
    const { admin, profiles, bound } = world
    const give = (at: At, profile_id: string) =>
      call(at, admin, 'assignCsrProfile', { params: { profile_id, account_id: bound } })
    const decision = await done('csr_profile.assign', async (at) => {
      await give(at, profiles.tight)
      await give(at, profiles.loose)
    })
    await inCopy(async (at) => {
      await give(at, profiles.tight)
      assert.equal(await restore(at, decision), 'lost')
    })
  })

  test('a profile whose name is taken comes back under another one', async () => {
    const make = (at: At) =>
      call(at, world.admin, 'createCsrProfile', {
        body: { name: 'p', description: null, profile_data: { san_maximum: 2 } },
      })
    const decision = await done('csr_profile.create', make)
    await inCopy(async (at) => {
      await make(at)
      assert.equal(await restore(at, decision), 'restored')
      const [row] = await at.sql('SELECT name FROM csr_profiles WHERE id = $1', [decision.details['profile_id']])
      assert.deepEqual(row, { name: `p (${decision.details['profile_id']})` })
    })
  })

  describe('of a bulk revocation', () => {
    const begin = (at: At, filter: object, reason: number) =>
      at.bulkRevocations.begin(world.admin, { filter, reason, confirmCount: undefined })
    const begun = (filter: object, reason: number) =>
      done('certificate.bulk_revoke', (at) => begin(at, filter, reason), "details->>'phase' = 'begun'")

    test('leaves what was issued since', async () => {
      const decision = await begun({ account_id: world.account }, 4)
      await inCopy(async (at) => {
        const { intent } = await aCertificate(at.stores, world.requester, { issued: { notAfter: inHours(1) } })
        await restore(at, decision)
        const id = String(decision.details['job_id'])
        at.bulkRevocations.take(id)
        await at.bulkRevocations.wait(id, 60_000)
        assert.deepEqual(await at.sql('SELECT id FROM certificates WHERE revoked_at IS NULL'), [
          { id: intent.certificateId },
        ])
      })
    })

    test('of more serial numbers than a record has is told', async () => {
      const serial_numbers = Array.from({ length: 1_001 }, (_, n) => n.toString(16).padStart(40, '0'))
      const decision = await begun({ serial_numbers }, 4)
      assert.ok(JSON.stringify(decision).length < 60_000)
      await inCopy(async (at) => assert.equal(await restore(at, decision), 'partly'))
    })
  })

  test('has in its record what its entry in the audit log does not say', async () => {
    await inCopy(async (at) => {
      await CASES['auth.logout'][0]?.act(at, world)
      const [row] = await at.sql("SELECT details FROM admin_audit_log WHERE action = 'auth.logout'")
      assert.deepEqual(row, { details: {} })
      assert.deepEqual((await decisionOf(at, 'auth.logout', 'bob')).details, { session_id: world.session })
    })
  })

  test('whose details were too long for the record is told as lost', async () => {
    await inCopy(async (at) => {
      const cut = { ...overAcme('csr_profile.create', { cut: true }) }
      assert.equal(await restore(at, cut), 'lost')
    })
  })

  test('about something that is gone is overtaken', async () => {
    await inCopy(async (at) => {
      const gone = { account_id: world.team, eab_id: world.account, token_id: world.team, approval_id: world.team }
      for (const act of words`account.deactivate account.update eab.revoke eab.update token.revoke approval.approve approval.collect`)
        assert.equal(await restore(at, overAcme(act as RestrictingAct, gone)), 'overtaken', act)
    })
  })

  test('each act that restricts has a case', () => {
    const restricting = Object.entries(EFFECTS).filter(
      ([, effect]) => effect === 'restricts' || typeof effect === 'function',
    )
    assert.deepEqual(Object.keys(CASES).sort(), restricting.map(([act]) => act).sort())
    assert.deepEqual(Object.keys(RESTORES).sort(), restricting.map(([act]) => act).sort())
  })
})
