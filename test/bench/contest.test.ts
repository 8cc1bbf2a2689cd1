/** Turns of servers of which one has stopped answering. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contest } from '../../bench/contest.ts'
import { parseOptions } from '../../bench/options.ts'
import { isBroken } from '../../bench/report/summary.ts'
import type { Contestant } from '../../bench/servers/chancery.ts'

test('a server that cannot be started again says in its next turn why', async () => {
  const plan = parseOptions({
    directory: 'https://127.0.0.1:1/',
    scenario: 'directory',
    against: 'https://127.0.0.1:1/',
  })
  const subject = { name: 'A', commit: undefined, note: '' }
  const gone: Contestant = {
    subject,
    options: { ...plan.options, count: 1, warmupMs: 0, clients: 1 },
    restart: () => Promise.reject(new Error('A did not start: its disk is full')),
    stop: async () => undefined,
  }
  const around = { progress: { begin: () => undefined, end: () => undefined }, interrupt: new AbortController().signal }
  const [measured] = await contest([gone, { ...gone }], { ...plan, repeat: 2 }, around, () => undefined)
  const reasons = measured?.rounds.map(([turn]) => turn && isBroken(turn) && turn.broken)
  assert.match(String(reasons?.[0]), /ECONNREFUSED|nothing succeeded/)
  assert.equal(reasons?.[1], 'A did not start: its disk is full')
})
