/** What an instance knows of its signer's records, and what it does with a mark that is beyond them. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordDamage, RecordState } from '../../../src/ca/signer-records.ts'
import { Reconciliation, type ReconciliationParts } from '../../../src/services/reconcile/reconciliation.ts'

const ISSUER_KEY = Buffer.alloc(32, 1)
const URL = 'http://ca.example/crl/default/4/1'

const aState = (certificates: number, revocations: number): RecordState => ({
  chain: 'ab'.repeat(16),
  certificates: { first: 1, last: certificates },
  revocations: { first: 2, last: revocations },
  lists: [
    { issuerKey: ISSUER_KEY.toString('hex'), url: '', number: 7n },
    { issuerKey: ISSUER_KEY.toString('hex'), url: URL, number: 9n },
  ],
})

/** A signer that answers `states`, one after the other, and a database with a mark. */
function aReconciliation(states: (RecordState | Error)[]) {
  const found: { error?: Error } = {}
  const mark = { certificates: 100, revocations: { seq: 90, part: 3 }, behindSince: undefined }
  const compared: number[] = []
  const fewer: number[][] = []
  const damage: RecordDamage[] = []
  const told: string[] = []
  const parts: ReconciliationParts = {
    records: {
      async state() {
        const next = states.shift()
        if (next instanceof Error) throw next
        return next
      },
      damage: async () => damage.shift(),
    },
    marks: {
      mark: async () => structuredClone(mark),
      async lower(_chain, last) {
        mark.certificates = last.certificates
        mark.revocations.seq = last.revocations
      },
      noteBehind: async () => true,
      noteNothingMissing: async () => undefined,
    },
    comparison: {
      async run(state, { certificates, revocations }) {
        if (found.error) throw found.error
        compared.push(certificates, revocations.seq)
        return { certificates: 0, revocations: 0, reached: state.certificates.last }
      },
    },
    mode: 'automatic',
    events: {
      behind: () => told.push('behind'),
      complete: () => told.push('complete'),
      noRecords: () => undefined,
      gap: (from, to) => told.push(`gap ${from} to ${to}`),
      fewer: (...found) => fewer.push(found),
      looked: async () => undefined,
      damaged: ({ decisions }) => told.push(`${decisions.lines} damaged from ${decisions.first}`),
    },
    isStopping: () => false,
  }
  return { reconciliation: new Reconciliation(parts), compared, fewer, found, told, damage }
}

test('the newest number of a list is not known before the signer has answered', async () => {
  const { reconciliation } = aReconciliation([new Error('away'), aState(100, 90)])
  await assert.rejects(reconciliation.look(), /away/)
  assert.equal(reconciliation.newestSigned(ISSUER_KEY, ''), undefined)
  await reconciliation.look()
  assert.equal(reconciliation.newestSigned(ISSUER_KEY, ''), 7n)
  assert.equal(reconciliation.newestSigned(ISSUER_KEY, URL), 9n)
  assert.equal(reconciliation.newestSigned(Buffer.alloc(32, 2), ''), 0n)
})

test('a mark within the records stays, and the comparison begins there', async () => {
  const { reconciliation, compared, fewer } = aReconciliation([aState(120, 130)])
  assert.equal(await reconciliation.round(), undefined)
  assert.deepEqual([compared, fewer], [[100, 90], []])
})

test('a mark beyond the records goes back to them: a signer with files of an earlier day gives numbers again', async () => {
  const { reconciliation, compared, fewer } = aReconciliation([aState(40, 30), aState(60, 30)])
  await reconciliation.round()
  await reconciliation.round()
  assert.deepEqual(compared, [40, 30, 40, 30])
  assert.deepEqual(fewer, [[40, 100]])
})

test('an instance tells what it brought back, also when another one has ended what it began', async () => {
  const { reconciliation, found, told } = aReconciliation([aState(120, 130), aState(120, 130), aState(120, 130)])
  await reconciliation.look()
  await reconciliation.noteBehind()
  found.error = new Error('the database is away')
  await assert.rejects(reconciliation.round(), /away/)
  delete found.error
  await reconciliation.round()
  assert.deepEqual(told, ['behind', 'complete'])
  assert.equal(reconciliation.isBehind, false)
})

test('records that the signer removed before they were compared are told once, certificates and revocations', async () => {
  const state = { ...aState(400, 300), certificates: { first: 150, last: 400 }, revocations: { first: 120, last: 300 } }
  const { reconciliation, told } = aReconciliation([state, state])
  await reconciliation.round()
  await reconciliation.round()
  assert.deepEqual(told, ['gap 101 to 149', 'gap 91 to 119'])
})

test('records that are damaged are told once, and again when there are more; the signer is asked once a minute', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const { reconciliation, damage, told } = aReconciliation(Array.from({ length: 5 }, () => aState(120, 130)))
  const none = { lines: 0, first: 0 }
  const found = (lines: number) => ({ certificates: none, revocations: none, decisions: { lines, first: 7 } })
  damage.push(found(0), found(2), found(2), found(3))
  await reconciliation.round()
  await reconciliation.round()
  assert.equal(damage.length, 3)
  for (let minute = 1; minute <= 3; minute++) {
    now = minute * 60_000
    await reconciliation.round()
  }
  assert.deepEqual(told, ['2 damaged from 7', '3 damaged from 7'])
})
