/** What a front thread knows of backends that are left alone. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CsrFinalization } from '../../../src/services/csr-finalization.ts'
import { allocateSharedOutages, openSharedOutages } from '../../../src/services/shared-state.ts'

const NAMES = ['external', 'acme_proxy']

describe('backends that are left alone', () => {
  const memory = allocateSharedOutages(NAMES)
  const [supervisor, front] = [openSharedOutages(memory, NAMES), openSharedOutages(memory, NAMES)]

  test('are known to every thread, each by itself, for as long as they are', () => {
    assert.equal(front.secondsLeft('external'), 0)
    supervisor.set('external', 59_000)
    assert.ok(front.secondsLeft('external') > 50 && front.secondsLeft('external') <= 60)
    assert.equal(front.secondsLeft('acme_proxy'), 0)
    supervisor.set('external', 0)
    assert.equal(front.secondsLeft('external'), 0)
    assert.equal(front.secondsLeft('unknown'), 0)
  })

  test('a finalize is refused while no backend of its profile is there', () => {
    const secondsAway = (name: string) => ({ external: 20, acme_proxy: 10 })[name] ?? 0
    const of = (backends: string[], isSignerUsable = false, more: object = {}) => {
      const parts = {
        secondsAway,
        isSignerUsable: () => isSignerUsable,
        isStopped: () => false,
        instanceId: 1,
        ...more,
      }
      const store = { begin: async () => true, takeFromSigner: async () => true }
      const finalization = new CsrFinalization({ store, issue: async () => 'pending', ...parts })
      return () => finalization.requireAvailable({ backends })
    }
    const refused = (retryAfterSeconds: number) => ({ status: 503, options: { status: 503, retryAfterSeconds } })
    assert.throws(of(['external']), refused(20))
    assert.throws(of(['external', 'acme_proxy', 'internal']), refused(10))
    of(['external', 'internal'], true)()
    of(['external', 'ext:./there.js'])()
    assert.throws(of(['external', 'internal'], true, { isStopped: () => true }), refused(60))
  })
})
