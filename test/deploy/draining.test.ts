/**
 * Planned restarts of two instances behind balancers that pass bytes on and repeat nothing: `server.drain_seconds` lets no client
 * see one. The first asks /readyz. The second is told by somebody else, after the signal, as Kubernetes does with endpoints.
 */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Responder, startResponder } from '../support/acme-client.ts'
import {
  haproxy,
  makeCertificate,
  type ProxyExample,
  type ProxyPorts,
  proxyPorts,
  startProxy,
  stopProxy,
  throughProxy,
} from '../support/proxies.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { FLOWS, FLOWS_TIMEOUT_MS, type SteadyFlows, startFlows, summary } from '../support/steady-flows.ts'
import { until } from '../support/until.ts'

const LEAST_RESTARTS = 2
/** Two failed checks take a second. */
const DRAIN_SECONDS = 5
/** Between the signal and the end of new connections to the instance. */
const ENDPOINT_DELAY_MS = 2_000
const EXTERNAL_URL = 'https://acme.corp.example'

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

async function tell(folder: string, { https }: ProxyPorts, server: string, state: 'drain' | 'ready'): Promise<void> {
  const socket = connect(`${folder}/${https}.sock`)
  socket.write(`set server instances/${server} state ${state}\n`)
  assert.equal((await text(socket)).trim(), '')
}

describe('restarts behind balancers that repeat nothing', { ...haproxy.required, timeout: FLOWS_TIMEOUT_MS }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-draining-'))
  const instances: TestService[] = []
  let responder: Responder
  const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true })]

  const config = (http01Port?: number) => ({
    server: {
      external_url: EXTERNAL_URL,
      drain_seconds: DRAIN_SECONDS,
      graceful_timeout: 30,
      tls: { cert_path: path.join(folder, 'cert.pem'), key_path: path.join(folder, 'key.pem') },
    },
    nonce: { store: 'database' },
    ...(http01Port && { challenges: { http01: { port: http01Port } } }),
  })

  before(async () => {
    makeCertificate(folder)
    const first = await startTestService({ config: config() })
    cleanups.push(() => first.dispose())
    responder = await startResponder(first.http01Port)
    cleanups.push(() => responder.close())
    const second = await startTestService({ config: config(first.http01Port), beside: first })
    cleanups.push(() => second.dispose())
    instances.push(first, second)
  })
  after(async () => {
    for (const instance of instances) await instance.dispose()
    for (const cleanup of cleanups.toReversed()) await cleanup()
  })

  async function startLane(proxy: ProxyExample): Promise<{ ports: ProxyPorts; flows: SteadyFlows }> {
    const ports = await proxyPorts(instances[0]?.port as number, instances[1]?.port)
    const child = await startProxy(proxy, folder, ports, '')
    cleanups.push(() => stopProxy(child))
    const directoryUrl = `${EXTERNAL_URL}/directory`
    return { ports, flows: await startFlows({ directoryUrl, responder, connect: () => throughProxy(ports) }) }
  }

  test(`lose no request of ${FLOWS} flows through each`, async (t) => {
    const lanes = { asking: await startLane(asking), told: await startLane(told) }
    await until('both instances are up', () => asking.usesAll(folder, lanes.asking.ports))
    const areDone = () => Object.values(lanes).every(({ flows }) => flows.tally.flows >= FLOWS)
    let restarts = 0
    for (; restarts < LEAST_RESTARTS || !areDone(); restarts++) {
      const which = restarts % instances.length
      const name = which === 0 ? 'one' : 'two'
      const instance = instances[which] as TestService
      const stopped = instance.stop()
      await sleep(ENDPOINT_DELAY_MS)
      await tell(folder, lanes.told.ports, name, 'drain')
      assert.equal(await stopped, 0)
      instances[which] = await startTestService({
        config: config(instances[0]?.http01Port),
        continueFrom: instance,
      })
      await tell(folder, lanes.told.ports, name, 'ready')
      await until('both instances are up', () => asking.usesAll(folder, lanes.asking.ports))
    }
    const ended = await Promise.allSettled(Object.values(lanes).map(({ flows }) => flows.stop()))
    for (const [name, { flows }] of Object.entries(lanes))
      t.diagnostic(`balancer ${name}: ${restarts} restarts, ${summary(flows.tally)}`)
    for (const end of ended) if (end.status === 'rejected') throw end.reason
  })
})
