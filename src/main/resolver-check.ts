/** Whether a name server of validation answers: asked in the background, because anyone may ask for health. */

import { Resolver } from 'node:dns/promises'
import type { CheckStatus } from '../domain/health.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'

const INTERVAL_MS = 10_000
const TIMEOUT_MS = 2_000

/** Any answer shows that it is there, also one that refuses. */
const ANSWERS = new Set(['ENODATA', 'ENOTFOUND', 'ESERVFAIL', 'EREFUSED', 'EFORMERR', 'ENOTIMP'])

interface ResolverCheck {
  status(): CheckStatus
  stop(): Promise<void>
}

/** @param servers `dns.resolvers`; one that answers is enough */
export function startResolverCheck(servers: readonly string[]): ResolverCheck {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 1 })
  resolver.setServers(servers)
  let status: CheckStatus = 'ok'
  const loop: Loop = startLoop({
    name: 'dns resolver',
    intervalMs: INTERVAL_MS,
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
