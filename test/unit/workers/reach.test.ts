import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDeadline } from '../../../workers/deadline.ts'
import type { EvidenceStep } from '../../../workers/job.ts'
import { reach } from '../../../workers/reach.ts'
import { each } from '../../support/each.ts'

test('of a host with thousands of addresses 32 of each family are looked at', async () => {
  const ipv4 = Array.from({ length: 4000 }, (_, n) => `192.0.${n >> 8}.${n & 255}`)
  const ipv6 = Array.from({ length: 2000 }, (_, n) => `2001:db8::${n.toString(16)}`)
  let compared = 0
  const evidence: EvidenceStep[] = []
  const outcome = await reach(
    { host: 'many.test', port: 80, tls: undefined },
    {
      dns: {
        resolveAddresses: async () => ({ kind: 'answer', resolver: 'dns.test', aliases: [], ipv4, ipv6 }),
      } as never,
      policy: {
        isBlocked() {
          compared += 1
          return true
        },
      } as never,
      deadline: startDeadline(60_000),
      evidence,
    },
  )
  assert.ok('kind' in outcome)
  assert.match(outcome.reason, /no address that this server may connect to/)
  assert.equal(compared, 64)
  assert.deepEqual(each(evidence, 'step'), ['resolved', 'blocked'])
})
