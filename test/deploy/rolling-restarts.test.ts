/** Planned restarts of two instances behind the examples of deploy/proxy: no client sees one. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Responder, startResponder } from '../support/acme-client.ts'
import {
  haproxy,
  makeCertificate,
  nginx,
  OPERATORS,
  proxyPorts,
  startProxy,
  stopProxy,
  throughProxy,
} from '../support/proxies.ts'
import { requireAll } from '../support/requirements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { FLOWS, FLOWS_TIMEOUT_MS, startFlows, summary } from '../support/steady-flows.ts'
import { until } from '../support/until.ts'

const LEAST_RESTARTS = 4
const EXTERNAL_URL = 'https://acme.corp.example'

/** Both ask the one responder. */
const config = (http01Port?: number) => ({
  server: { external_url: EXTERNAL_URL },
  proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
  nonce: { store: 'database' },
  ...(http01Port && { challenges: { http01: { port: http01Port } } }),
})

describe('rolling restarts behind both proxies', {
  ...requireAll(nginx.required, haproxy.required),
  timeout: FLOWS_TIMEOUT_MS,
}, () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-rolling-'))
  const instances: TestService[] = []
  let responder: Responder
  const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true })]
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

  test(`lose no request of ${FLOWS} flows through each`, async (t) => {
    const lanes = await Promise.all(
      [nginx, haproxy].map(async (proxy) => {
        const ports = await proxyPorts(instances[0]?.port as number, instances[1]?.port)
        const child = await startProxy(proxy, folder, ports, OPERATORS)
        cleanups.push(() => stopProxy(child))
        const directoryUrl = `${EXTERNAL_URL}/directory`
        const flows = await startFlows({ directoryUrl, responder, connect: () => throughProxy(ports) })
        return { proxy, ports, flows }
      }),
    )
    const areDone = () => lanes.every(({ flows }) => flows.tally.flows >= FLOWS)
    let restarts = 0
    for (; restarts < LEAST_RESTARTS || !areDone(); restarts++) {
      const which = restarts % instances.length
      const instance = instances[which] as TestService
      assert.equal(await instance.stop(), 0)
      instances[which] = await startTestService({
        config: config(instances[0]?.http01Port),
        continueFrom: instance,
      })
      for (const { proxy, ports } of lanes)
        await until(`${proxy.command} uses both instances`, () => proxy.usesAll(folder, ports))
    }
    const ended = await Promise.allSettled(lanes.map(({ flows }) => flows.stop()))
    for (const { proxy, flows } of lanes)
      t.diagnostic(`${proxy.command}: ${restarts} restarts, ${summary(flows.tally)}`)
    for (const end of ended) if (end.status === 'rejected') throw end.reason
  })
})
