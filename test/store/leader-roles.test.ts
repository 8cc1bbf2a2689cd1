/** Background tasks of several instances: what one of them is long at keeps the others from nothing else. */

import assert from 'node:assert/strict'
import { afterEach, before, describe, test } from 'node:test'
import pg from 'pg'
import { type BackgroundParts, backgroundTasks } from '../../src/main/background.ts'
import { type BackgroundWorkers, startBackgroundTasks } from '../../src/main/background-tasks.ts'
import { createStores } from '../../src/main/stores.ts'
import type { InstancePresence } from '../../src/store/instance-presence.ts'
import { leafTbs, makeAuthority } from '../signer/authority.ts'
import { until } from '../support/until.ts'
import { aConfig } from '../unit/config/support.ts'
import { anIntent, useInstances, useStores } from './support.ts'

describe('background tasks of two instances', () => {
  const store = useStores(() => locker.end())
  let locker: pg.Client
  const started: BackgroundWorkers[] = []
  before(async () => {
    locker = new pg.Client({ ...store.settings, host: store.settings.hosts[0] })
    await locker.connect()
  })
  afterEach(async () => {
    await locker.query('ROLLBACK')
    await Promise.all(started.splice(0).map((workers) => workers.stop()))
  })
  const announce = useInstances(store)

  /** One task as the service makes it. @returns what becomes of it, word by word */
  function start(task: string, { instanceId, lead, presentSince }: InstancePresence): string[] {
    const parts: Partial<BackgroundParts> = {
      config: aConfig(),
      instanceId,
      stores: createStores(store.db),
      issuance: { recover: async () => ({ outcome: 'recorded' }) } as unknown as BackgroundParts['issuance'],
      ca: { issuers: () => [], outage: () => undefined, unreachable: () => undefined },
      onRecovered: (_, outcome) => told.push(outcome),
      presentSince,
      isStopping: () => false,
    }
    const told: string[] = []
    const workers = startBackgroundTasks(
      backgroundTasks(parts as BackgroundParts).filter(({ name }) => name === task),
      lead,
      {
        began: () => told.push('began'),
        ended: () => told.push('ended'),
        failed: () => told.push('failed'),
        recovered: () => undefined,
        ran: () => undefined,
      },
    )
    started.push(workers)
    return told
  }

  test('a long round of retention on one leaves the other to recover its own issuances', async () => {
    const [cleaning, other] = [await announce(), await announce()]
    await store.issuance.begin(anIntent(undefined, { instanceId: other.instanceId, tbs: leafTbs(makeAuthority()) }))
    await store.sql("UPDATE issuance_intents SET created_at = now() - interval '1 day'")
    await locker.query('BEGIN')
    await locker.query('LOCK TABLE cleanup_progress IN ACCESS EXCLUSIVE MODE')
    const retention = start('retention', cleaning)
    await until('retention is at work', () => retention.includes('began'))

    const recovery = start('stale_processing_recovery', other)
    await until('the issuance is recovered', () => recovery.includes('recorded') || retention.length > 1)
    assert.deepEqual([recovery, retention], [['began', 'recorded', 'ended'], ['began']])
  })
})
