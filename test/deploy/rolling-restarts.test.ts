/** Planned restarts of two instances behind the examples of deploy/proxy: no client sees one. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EXTERNAL_URL, endLanes, startLane } from '../support/clients/proxy-flows.ts'
import { FLOWS, IS_NIGHTLY } from '../support/clients/steady-flows.ts'
import { haproxy, nginx } from '../support/hosts/proxies.ts'
import { twoInstances } from '../support/hosts/two-instances.ts'
import { requireAll } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Each instance once; as many as there is time for in a nightly run. */
const LEAST_RESTARTS = 2

/** Both ask the one responder. */
const config = (_folder: string, http01Port?: number) => ({
  server: { external_url: EXTERNAL_URL },
  proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
  nonce: { store: 'database' },
  ...(http01Port && { challenges: { http01: { port: http01Port } } }),
})

describe('rolling restarts behind both proxies', {
  ...requireAll(nginx.required, haproxy.required),
}, () => {
  const two = twoInstances(config)

  test(`lose no request of ${FLOWS} flows through each`, async (t) => {
    const { folder, instances } = two
    const lanes = await Promise.all([nginx, haproxy].map((proxy) => startLane(proxy.command, proxy, two)))
    const areDone = () => lanes.every(({ flows }) => flows.tally.flows >= FLOWS)
    let restarts = 0
    for (; restarts < LEAST_RESTARTS || (IS_NIGHTLY && !areDone()); restarts++) {
      const which = restarts % instances.length
      const instance = instances[which] as TestService
      assert.equal(await instance.stop(), 0)
      instances[which] = await startTestService({
        config: config(folder, instances[0]?.http01Port),
        continueFrom: instance,
      })
      for (const { proxy, ports } of lanes)
        await until(`${proxy.command} uses both instances`, () => proxy.usesAll(folder, ports))
    }
    await Promise.all(lanes.map(({ flows }) => flows.reached(FLOWS)))
    await endLanes(lanes, (line) => t.diagnostic(`${restarts} restarts behind ${line}`))
  })
})
