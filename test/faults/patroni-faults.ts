/** What may befall a database under Patroni, each as a fault and its repair. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { PatroniCluster, PatroniNode } from '../support/databases/patroni.ts'

/** What is done to the primary or to all. @returns the repair; undefined where Patroni repairs it alone */
type Fault = (cluster: PatroniCluster, primary: PatroniNode) => Promise<(() => Promise<void>) | undefined>

/** etcd is away for longer than Patroni waits for it, and for longer than the leader's key lives. */
const ETCD_AWAY_MS = 30_000

export const FAULTS = {
  /** Planned. */
  'switch-over': async (cluster) => {
    await cluster.switchOver()
    return undefined
  },
  /** kill -9 of PostgreSQL; Patroni is there and lets another node take over. */
  'kill-postgres': async (_, primary) => {
    primary.killPostgres()
    return undefined
  },
  /** kill -9 of the whole machine: its connections are neither closed nor answered. */
  'kill-node': async (_, primary) => {
    primary.host.cut()
    primary.signal('SIGKILL')
    return async () => {
      primary.host.heal()
      primary.start()
    }
  },
  /** The primary cannot reach anybody, and nobody it. It comes back as one that believes to lead. */
  'cut-off': async (_, primary) => {
    primary.host.cut()
    return async () => primary.host.heal()
  },
  /** Cut off from the other nodes alone: instances still reach it, while another node is promoted. */
  'split-brain': async ({ hosts }, primary) => {
    primary.host.cut(hosts.filter((address) => address !== primary.host.address))
    return async () => primary.host.heal()
  },
  /** The machine stands still, and goes on later with all its connections as if nothing had been. */
  paused: async (_, primary) => {
    primary.signal('SIGSTOP')
    return async () => primary.signal('SIGCONT')
  },
  /** No node may lead meanwhile: Patroni makes the primary read-only. */
  'etcd-lost': async ({ nodes }) => {
    for (const node of nodes) node.killEtcd()
    await sleep(ETCD_AWAY_MS)
    for (const node of nodes) node.startEtcd()
    return undefined
  },
} as const satisfies Record<string, Fault>

export type FaultName = keyof typeof FAULTS
