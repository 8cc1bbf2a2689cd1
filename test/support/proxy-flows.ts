/** The flows of steady clients through proxies in front of two instances. */

import type { ChildProcess } from 'node:child_process'
import type { Responder } from './acme-client.ts'
import {
  OPERATORS,
  type ProxyExample,
  type ProxyPorts,
  proxyPorts,
  startProxy,
  stopProxy,
  throughProxy,
} from './proxies.ts'
import type { TestService } from './service.ts'
import { type SteadyFlows, startFlows, summary } from './steady-flows.ts'

/** The examples of deploy/proxy are for this URL. */
export const EXTERNAL_URL = 'https://acme.corp.example'

export interface Lane {
  name: string
  proxy: ProxyExample
  ports: ProxyPorts
  flows: SteadyFlows
}

interface LaneOptions {
  /** Where `makeCertificate` has been. */
  folder: string
  instances: readonly Pick<TestService, 'port'>[]
  responder: Responder
  /** Gets what ends the proxy. */
  cleanups: (() => unknown)[]
  clients?: number
}

export async function startLane(
  name: string,
  proxy: ProxyExample,
  { folder, instances, responder, cleanups, clients }: LaneOptions,
): Promise<Lane> {
  const ports = await proxyPorts(instances[0]?.port as number, instances[1]?.port)
  const child: ChildProcess = await startProxy(proxy, folder, ports, OPERATORS)
  cleanups.push(() => stopProxy(child))
  const connect = () => throughProxy(ports)
  const directoryUrl = `${EXTERNAL_URL}/directory`
  const flows = await startFlows({ directoryUrl, responder, connect, ...(clients && { clients }) })
  return { name, proxy, ports, flows }
}

/** Ends the flows of all and says what there was. @throws AssertionError when any request or flow has failed */
export async function endLanes(lanes: readonly Lane[], say: (line: string) => void): Promise<void> {
  const ended = await Promise.allSettled(lanes.map(({ flows }) => flows.stop()))
  for (const { name, flows } of lanes) say(`${name}: ${summary(flows.tally)}`)
  for (const end of ended) if (end.status === 'rejected') throw end.reason
}
