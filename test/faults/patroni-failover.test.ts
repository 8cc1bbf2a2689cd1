/**
 * A database under Patroni changes its primary while clients are busy: they lose nothing, and the service adds next to
 * nothing to the time that PostgreSQL itself is away. `CHANCERY_NIGHTLY=1` tries all faults.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requireNamespaces } from '../support/hosts/own-network.ts'
import { requireAll, requireCommand } from '../support/requirements.ts'
import { type DrillOptions, drill } from './patroni-drill.ts'
import { FAULTS, type FaultName } from './patroni-faults.ts'

const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
/** A new primary is found in a second. Beside other tests, the machine stands still for longer. */
const MOST_ADDED_MS = IS_NIGHTLY ? 2_000 : 10_000

const needs = requireAll(
  requireNamespaces(),
  requireCommand('patroni'),
  requireCommand('etcd'),
  requireCommand('haproxy'),
  requireCommand('ip'),
  requireCommand('nft'),
  requireCommand('pg_createcluster'),
)

async function assertDrill(options: DrillOptions): Promise<void> {
  const result = await drill(options)
  console.log(JSON.stringify(result))
  for (const { fault, addedMs } of result.costs)
    assert.ok(addedMs <= MOST_ADDED_MS, `${fault}: instances were away for ${addedMs} ms longer than PostgreSQL`)
  assert.deepEqual(result.lost, { certificates: 0, revocations: 0 })
  assert.ok(result.mostBadNonces <= 1, 'the nonce in the answer to badNonce works')
  assert.ok(result.flows > 0 && result.revocations > 0)
}

test('a switch-over and the death of PostgreSQL, with a synchronous replica', needs, () =>
  assertDrill({ isSynchronous: true, by: 'hosts', faults: ['switch-over', 'kill-postgres'] }),
)

const ALL = Object.keys(FAULTS) as FaultName[]
/** Without a synchronous replica. */
const ASYNCHRONOUS: readonly FaultName[] = ['switch-over', 'kill-postgres', 'cut-off', 'split-brain']

if (IS_NIGHTLY)
  for (const by of ['hosts', 'haproxy'] as const) {
    test(`every fault twice, with a synchronous replica, by ${by}`, needs, () =>
      assertDrill({ isSynchronous: true, by, faults: [...ALL, ...ALL] }),
    )
    // What the replicas had not received comes back from the signer.
    test(`faults with asynchronous replicas, by ${by}`, needs, () =>
      assertDrill({ isSynchronous: false, by, faults: ASYNCHRONOUS }),
    )
  }
