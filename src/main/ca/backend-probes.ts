/**
 * Asks the backends that issue from a CSR whether they can be used: before the service is ready, then in the
 * background. Health shows the last answer. An answer ends the pause of a backend whose circuit breaker was open.
 */

import type { Logger } from 'pino'
import type { GuardedCsrBackend } from '../../ca/guarded-csr-backend.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'

type Probed = Pick<GuardedCsrBackend, 'name' | 'isUp' | 'checkHealth'>

/** The first answer may need a TLS handshake, an upstream account and the load of a module. */
const FIRST_ANSWER_MS = 15_000
const ANSWER_MS = 5_000
/** Some CAs limit the number of requests. */
const UP_INTERVAL_MS = 15_000

/** A backend that does not answer is only logged, since it may be back before the first order. */
export async function startBackendProbes(backends: readonly Probed[], intervalMs: number, log: Logger): Promise<Loop> {
  const askedAt = new Map<Probed, number>()
  const away = new Set<Probed>()

  async function ask(backend: Probed, timeoutMs: number): Promise<void> {
    const { name } = backend
    askedAt.set(backend, performance.now())
    try {
      await backend.checkHealth(timeoutMs)
      if (away.delete(backend))
        log.warn({ event: 'backend_reachable', backend: name }, 'a CA backend answers its probe again')
    } catch (error) {
      if (away.has(backend)) return
      away.add(backend)
      const reason = error instanceof Error ? error.message : String(error)
      log.error({ event: 'backend_unreachable', backend: name, reason }, 'a CA backend fails its probe')
    }
  }

  const isDue = (backend: Probed) =>
    !backend.isUp() || performance.now() - (askedAt.get(backend) ?? 0) >= UP_INTERVAL_MS

  await Promise.all(backends.map((backend) => ask(backend, FIRST_ANSWER_MS)))
  return startLoop({
    name: 'backend_probes',
    intervalMs,
    round: async () => void (await Promise.all(backends.filter(isDue).map((backend) => ask(backend, ANSWER_MS)))),
    onError: (_, error) => log.error({ err: error }, 'a probe of the CA backends failed'),
  })
}
