/** Presence and leader locks: who is alive is known from connections alone, and one instance leads. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { announceInstance, type InstancePresence } from '../../src/store/instance-presence.ts'
import { openSilentNetwork } from '../support/databases/silent-network.ts'
import { each } from '../support/each.ts'
import { until } from '../support/until.ts'
import { openStores, useInstances, useStores } from './support.ts'

describe('instances', () => {
  const store = useStores()
  const announce = useInstances(store)

  const kill = ({ instanceId }: InstancePresence) =>
    store.sql('SELECT pg_terminate_backend(pid) FROM pg_locks WHERE classid = 712100 AND objid = $1', [instanceId])

  /** It is back half a second later, and killed again where nobody looked meanwhile. */
  const untilGone = (victim: InstancePresence, witness: InstancePresence) =>
    waitUntil(async () => {
      await kill(victim)
      return !(await witness.liveInstances()).includes(victim.instanceId)
    })

  const waitUntil = (condition: () => Promise<boolean>) => until('a fact about instances', condition)

  test('all running instances see each other, and one that closed is gone', async () => {
    const [a, b] = await Promise.all([announce(), announce()])
    assert.deepEqual(
      await a.liveInstances(),
      [a.instanceId, b.instanceId].sort((x, y) => x - y),
    )
    await b.close()
    await waitUntil(async () => (await a.liveInstances()).length === 1)
  })

  test('instances of another database are not seen', async () => {
    const elsewhere = await openStores()
    const other = await announceInstance(elsewhere.settings, () => undefined)
    const here = await announce()
    assert.deepEqual(await here.liveInstances(), [here.instanceId])
    await other.close()
    await elsewhere.close()
  })

  test('one whose connection was killed is gone at once, says so, and comes back by itself', async () => {
    const losses: Error[] = []
    const witness = await announce()
    const victim = await announce((error) => losses.push(error))
    await untilGone(victim, witness)
    await waitUntil(async () => (await witness.liveInstances()).includes(victim.instanceId))
    assert.ok(losses.length > 0)
    assert.ok((await victim.liveInstances()).includes(victim.instanceId))
  })

  // A network that drops packets, or a database host that is gone: no end of the connection is told of it.
  test('one whose connection has fallen silent says so once, comes back, and has left no lock behind', async (context) => {
    const network = await openSilentNetwork(store.settings)
    context.after(() => network.close())
    const losses: Error[] = []
    const witness = await announce()
    const slow = { statementTimeoutMs: 2_000, ...network.address }
    const victim = await announce((error) => losses.push(error), slow)
    const since = victim.presentSince()
    await assert.rejects(
      victim.lead('cleanup', async () => network.silence()),
      /Query read timeout/,
    )
    assert.equal(victim.presentSince(), undefined)
    await waitUntil(async () => victim.presentSince() !== undefined)
    assert.notEqual(victim.presentSince(), since)
    assert.deepEqual(each(losses, 'message'), ['Query read timeout'])
    assert.deepEqual(
      await witness.liveInstances(),
      [witness.instanceId, victim.instanceId].sort((x, y) => x - y),
    )
    assert.equal(await witness.lead('cleanup', async () => undefined), true)
    assert.equal(await victim.lead('cleanup', async () => undefined), true)
  })

  test('closing while the connection is being made again leaves none behind', async () => {
    const witness = await announce()
    const victim = await announce()
    await untilGone(victim, witness)
    await victim.close()
    await sleep(800)
    assert.deepEqual(await witness.liveInstances(), [witness.instanceId])
  })

  describe('leading', () => {
    test('two instances never do the same work at the same time', async () => {
      const instances = await Promise.all([announce(), announce(), announce()])
      let leading = 0
      let most = 0
      let rounds = 0
      const work = async () => {
        leading++
        rounds++
        most = Math.max(most, leading)
        await sleep(5)
        leading--
      }
      const outcomes: boolean[] = []
      await Promise.all(
        instances.map(async (instance) => {
          for (let i = 0; i < 6; i++) outcomes.push(await instance.lead('cleanup', work))
        }),
      )
      assert.equal(most, 1)
      assert.equal(outcomes.filter(Boolean).length, rounds)
      assert.ok(rounds > 0)
    })

    test('one who leads keeps the others of that role out, not those of another', async () => {
      const [a, b] = await Promise.all([announce(), announce()])
      const led = await a.lead('cleanup', async () => {
        assert.equal(await b.lead('cleanup', () => assert.fail('two leaders')), false)
        assert.equal(await b.lead('challenge', async () => undefined), true)
      })
      assert.equal(led, true)
      assert.equal(await b.lead('cleanup', async () => undefined), true)
    })

    test('roles that begin at the same moment share the connection without a word on standard error', async () => {
      const presence = await announce()
      const warnings: Error[] = []
      const keep = (warning: Error) => warnings.push(warning)
      process.on('warning', keep)
      try {
        const roles = ['cleanup', 'challenge', 'retention'] as const
        const led = await Promise.all(roles.map((role) => presence.lead(role, () => sleep(5))))
        assert.deepEqual(led, [true, true, true])
        await sleep(5)
        assert.deepEqual(warnings, [])
      } finally {
        process.off('warning', keep)
      }
    })

    test('work that fails gives the lock back', async () => {
      const [a, b] = await Promise.all([announce(), announce()])
      await assert.rejects(
        a.lead('crl', () => Promise.reject(new Error('broken round'))),
        /broken round/,
      )
      assert.equal(await b.lead('crl', async () => undefined), true)
    })

    test('a leader whose connection was killed is followed by another', async () => {
      const [a, b] = await Promise.all([announce(), announce()])
      const first = a.lead('retention', async () => {
        await kill(a)
        await waitUntil(() => b.lead('retention', async () => undefined))
      })
      assert.equal(await first, true)
    })
  })
})
