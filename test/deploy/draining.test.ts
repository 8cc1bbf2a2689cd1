/**
 * Planned restarts of two instances behind balancers that pass bytes on and repeat nothing: `server.drain_seconds` lets no client
 * see one. The first asks /readyz. The second is told by somebody else, after the signal, as Kubernetes does with endpoints.
 */

import assert from 'node:assert/strict'
import { connect } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { EXTERNAL_URL, endLanes, startLane } from '../support/clients/proxy-flows.ts'
import { FLOWS, IS_NIGHTLY } from '../support/clients/steady-flows.ts'
import { haproxy, type ProxyExample, type ProxyPorts } from '../support/hosts/proxies.ts'
import { twoInstances } from '../support/hosts/two-instances.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

/** Each instance once; as many as there is time for in a nightly run. */
const LEAST_RESTARTS = 2
/** Two failed checks take a second. */
const DRAIN_SECONDS = 5
/** Between the signal and the end of new connections to the instance. */
const ENDPOINT_DELAY_MS = 2_000

const bytesOnly = (check: string): ProxyExample => ({
  ...haproxy,
  configuration: (folder, { http, https, service, second }) => `
global
    maxconn 200
    stats socket ${folder}/${https}.sock level admin
defaults
    mode tcp
    retries 0
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend clients
    bind 127.0.0.1:${https}
    default_backend instances
backend instances
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host acme.corp.example
    default-server ${check}
    server one 127.0.0.1:${service}
    server two 127.0.0.1:${second}
frontend running
    mode http
    bind 127.0.0.1:${http}
    http-request return status 200
`,
})
const asking = bytesOnly('check check-ssl verify none inter 500ms fall 2 rise 1')
const told = bytesOnly('')

const config = (folder: string, http01Port?: number) => ({
  server: {
    external_url: EXTERNAL_URL,
    drain_seconds: DRAIN_SECONDS,
    graceful_timeout: 30,
    tls: { cert_path: path.join(folder, 'cert.pem'), key_path: path.join(folder, 'key.pem') },
  },
  nonce: { store: 'database' },
  ...(http01Port && { challenges: { http01: { port: http01Port } } }),
})

async function tell(folder: string, { https }: ProxyPorts, server: string, state: 'drain' | 'ready'): Promise<void> {
  const socket = connect(`${folder}/${https}.sock`)
  socket.write(`set server instances/${server} state ${state}\n`)
  assert.equal((await text(socket)).trim(), '')
}

describe('restarts behind balancers that repeat nothing', { ...haproxy.required }, () => {
  const two = twoInstances(config)

  test(`lose no request of ${FLOWS} flows through each`, async (t) => {
    const { folder, instances } = two
    const askingLane = await startLane('a balancer that asks', asking, two)
    const toldLane = await startLane('a balancer that is told', told, two)
    const lanes = [askingLane, toldLane]
    await until('both instances are up', () => asking.usesAll(folder, askingLane.ports))
    const areDone = () => lanes.every(({ flows }) => flows.tally.flows >= FLOWS)
    let restarts = 0
    for (; restarts < LEAST_RESTARTS || (IS_NIGHTLY && !areDone()); restarts++) {
      const which = restarts % instances.length
      const name = which === 0 ? 'one' : 'two'
      const instance = instances[which] as TestService
      const stopped = instance.stop()
      await sleep(ENDPOINT_DELAY_MS)
      await tell(folder, toldLane.ports, name, 'drain')
      assert.equal(await stopped, 0)
      instances[which] = await startTestService({
        config: config(folder, instances[0]?.http01Port),
        continueFrom: instance,
      })
      await tell(folder, toldLane.ports, name, 'ready')
      await until('both instances are up', () => asking.usesAll(folder, askingLane.ports))
    }
    await Promise.all(lanes.map(({ flows }) => flows.reached(FLOWS)))
    await endLanes(lanes, (line) => t.diagnostic(`${restarts} restarts behind ${line}`))
  })
})
