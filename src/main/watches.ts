/** The supervisor looks regularly at the operator's switches, at revocations by commands, and at name servers. */

import { Resolver } from 'node:dns/promises'
import type { Logger } from 'pino'
import type { CheckStatus } from '../domain/health.ts'
import type { Metrics } from '../ops/metrics.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'
import type { SharedFlags } from '../services/shared-state.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import type { Database } from '../store/database.ts'
import { createServerSettings, SERVER_SWITCHES, type ServerSwitch, takeRevocations } from '../store/switch-store.ts'

/** Every thread must see a change within two seconds. */
const POLL_MS = 1_000

const MESSAGES: Record<ServerSwitch, { event: string; on: string; off: string }> = {
  maintenance: { event: 'maintenance_mode_changed', on: 'in maintenance', off: 'maintenance has ended' },
  stopSigning: { event: 'signing_switch_changed', on: 'signing is stopped', off: 'signing continues' },
}

/** Copies the database's switches to the shared flags. They stay as they are while the database is unreachable. */
export async function followSwitches(db: Database, flags: SharedFlags, log: Logger): Promise<Loop> {
  const settings = createServerSettings(db)
  const look = async () => {
    const positions = await settings.switches()
    for (const name of keysOf(SERVER_SWITCHES)) {
      const { on } = positions[name]
      if (on === flags.isOn(name)) continue
      flags.setSwitch(name, on)
      log.warn({ event: MESSAGES[name].event, enabled: on }, MESSAGES[name][on ? 'on' : 'off'])
    }
  }
  await look()
  return startLoop({
    name: 'switches',
    intervalMs: POLL_MS,
    round: look,
    onError: (_, error) => log.debug({ err: error }, 'the switches could not be read'),
  })
}

/** Puts what commands on the database have revoked into the metrics of the service. */
const LOOK_MS = 5_000

export function countCommandRevocations(
  db: Database,
  { certificatesRevoked, accountsRevoked }: Pick<Metrics, 'certificatesRevoked' | 'accountsRevoked'>,
  log: Logger,
): Loop {
  return startLoop({
    name: 'command_revocations',
    intervalMs: LOOK_MS,
    async round() {
      const taken = await takeRevocations(db)
      if (!taken) return
      certificatesRevoked.inc(taken.certificates)
      accountsRevoked.inc(taken.accounts)
    },
    onError: (_, error) => log.debug({ err: error }, 'revocations by commands could not be counted'),
  })
}

/** Whether a name server of validation answers. It is asked in the background, because anyone may ask for health. */
const RESOLVER_CHECK_MS = 10_000
const RESOLVER_TIMEOUT_MS = 2_000

/** Any answer shows that it is there, also one that refuses. */
const ANSWERS = new Set(['ENODATA', 'ENOTFOUND', 'ESERVFAIL', 'EREFUSED', 'EFORMERR', 'ENOTIMP'])

interface ResolverCheck {
  status(): CheckStatus
  stop(): Promise<void>
}

/** @param servers `dns.resolvers`; one that answers is enough */
export function startResolverCheck(servers: readonly string[]): ResolverCheck {
  const resolver = new Resolver({ timeout: RESOLVER_TIMEOUT_MS, tries: 1 })
  resolver.setServers(servers)
  let status: CheckStatus = 'ok'
  const loop: Loop = startLoop({
    name: 'dns resolver',
    intervalMs: RESOLVER_CHECK_MS,
    async round() {
      status = (await isAnswering(resolver)) ? 'ok' : 'error'
    },
    onError: () => undefined,
  })
  return {
    status: () => status,
    async stop() {
      resolver.cancel()
      await loop.stop()
    },
  }
}

/** The root's name servers are what every resolver knows. */
function isAnswering(resolver: Resolver): Promise<boolean> {
  return resolver.resolveNs('.').then(
    () => true,
    (error: NodeJS.ErrnoException) => ANSWERS.has(error.code ?? ''),
  )
}
