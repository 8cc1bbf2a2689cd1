/** A full flow whose challenges an accept-all validator module meets: what the figures of `docs/benchmarks.md` are taken with. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { resultsIn, runBench } from '../support/bench.ts'
import { startTestService, type TestService } from '../support/service.ts'

const ACCEPT_ALL = path.resolve(import.meta.dirname, '../../../bench/accept-all.mjs')

let service: TestService
before(async () => {
  service = await startTestService({ config: { challenges: { enabled: ['http-01', `ext:${ACCEPT_ALL}`] } } })
})
after(() => service.dispose())

const bench = (...args: string[]) => {
  const common = ['--directory', service.directoryUrl, '--count', '20', '--clients', '4', '--warmup', '0']
  return runBench(service.folder, ...common, ...args)
}

test('the bench issues certificates through a validator module', async () => {
  const file = path.join(service.folder, 'result.json')
  const { code, output } = await bench('--challenge', 'accept-all-01', '--root', service.ca.root, '--json', file)
  assert.equal(code, 0, output)
  assert.match(output, /^full-flow against .*, challenge accept-all-01$/m)
  const [result] = resultsIn(file)
  assert.deepEqual([result?.challenge, result?.succeeded, result?.certificatesChecked], ['accept-all-01', 20, 20])
})

test('a challenge that the server does not offer is a failure that says so', async () => {
  const { code, output } = await bench('--challenge', 'accept-all-02')
  assert.equal(code, 1)
  assert.match(output, /no-challenge, such as: the authorization offers no accept-all-02 challenge/)
})
