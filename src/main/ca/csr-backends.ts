/**
 * The backends that issue from a CSR, in the supervisor: how each is made, its circuit breaker and
 * its metrics.
 */

import type { Logger } from 'pino'
import { createAcmeProxyBackend } from '../../ca/acme-proxy/acme-proxy-backend.ts'
import { readReferenceKey } from '../../ca/acme-proxy/upstream-account.ts'
import { createCircuitBreaker } from '../../ca/circuit-breaker.ts'
import type { CsrBackend } from '../../ca/csr-backend.ts'
import { createExternalBackend } from '../../ca/external-backend.ts'
import { type BackendCall, type GuardedCsrBackend, guardCsrBackend } from '../../ca/guarded-backend.ts'
import { csrBackendNames, isModule } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { beginAtZero, type Metrics } from '../../ops/metrics.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import { openSharedOutages } from '../../services/shared-state.ts'
import {
  acmeProxySettings,
  challengeHandler,
  requireChallengeHandler,
  upstreamAccountBox,
} from '../../settings/acme-proxy-settings.ts'
import { breakerSettings, externalSettings } from '../../settings/backend-settings.ts'
import type { Database } from '../../store/database.ts'
import { createUpstreamAccountStore } from '../../store/upstream-account-store.ts'
import type { StartContext } from '../start-context.ts'
import { createCaModule } from './start-ca-module.ts'

/** The parts of a backend. */
interface BackendParts {
  config: Config
  db: Database
  log: Logger
}

/** By name. */
const FACTORIES: Readonly<Record<string, (parts: BackendParts) => CsrBackend | Promise<CsrBackend>>> = {
  external: ({ config }) => createExternalBackend(externalSettings(config)),
  acme_proxy: createAcmeProxy,
}

/** @throws Error in a plain sentence; the service does not start then */
export async function createCsrBackend(name: string, parts: BackendParts): Promise<CsrBackend> {
  if (isModule(name)) return createCaModule(name, parts)
  const create = FACTORIES[name]
  if (!create) throw new Error(`ca.backend ${name}: there is no such backend`)
  return create(parts)
}

export type CsrBackends = ReadonlyMap<string, GuardedCsrBackend>

/** @param outages memory of the shared outages */
export async function startCsrBackends(
  { config, log, metrics, teardown }: StartContext,
  db: Database,
  outages: SharedArrayBuffer,
): Promise<CsrBackends> {
  const { set: setOutage } = openSharedOutages(outages, csrBackendNames(config))
  const backends = new Map<string, GuardedCsrBackend>()
  const stopping = new AbortController()
  for (const name of csrBackendNames(config)) {
    const backend = await createCsrBackend(name, { config, db, log })
    teardown.add(() => backend.close())
    const parts = { config, stopping: stopping.signal, metrics, log, onWait: (ms: number) => setOutage(name, ms) }
    backends.set(name, guard(backend, parts))
  }
  if (backends.size === 0) return backends
  const probes = await startBackendProbes([...backends.values()], config.ca.failover.probe_seconds * 1000, log)
  teardown.add(async () => {
    // Steps under way have ended by now, or are cut off.
    stopping.abort(new Error('the service is stopping'))
    await probes.stop()
  })
  return backends
}

interface GuardParts {
  config: Config
  stopping: AbortSignal
  metrics: Metrics
  log: Logger
  /** Told how long the backend is left alone now, in milliseconds. */
  onWait(waitMs: number): void
}

function guard(backend: CsrBackend, { config, stopping, metrics, log, onWait }: GuardParts): GuardedCsrBackend {
  const { name } = backend
  const settings = breakerSettings(config)
  metrics.backendCircuitOpen.set({ backend: name }, 0)
  beginAtZero(
    metrics.backendRequests,
    ...['issue', 'revoke'].map((o) => ({ backend: name, operation: o, result: 'error' })),
  )
  const breaker = createCircuitBreaker(settings, {
    opened() {
      metrics.backendCircuitOpen.set({ backend: name }, 1)
      log.error(
        { event: 'backend_away', backend: name, ...settings },
        'a CA backend failed again and again; it is left alone for a while',
      )
    },
    closed() {
      metrics.backendCircuitOpen.set({ backend: name }, 0)
      log.warn({ event: 'backend_back', backend: name }, 'a CA backend is available again')
    },
  })
  const onCall = ({ operation, result, seconds }: BackendCall) => {
    metrics.backendRequests.inc({ backend: name, operation, result })
    metrics.backendRequestSeconds.observe({ backend: name, operation }, seconds)
  }
  return guardCsrBackend(backend, breaker, stopping, onCall, onWait)
}

interface AcmeProxyParts {
  config: Config
  db: Database
  log: Logger
}

/** The backend `acme_proxy`. @throws Error in a plain sentence for settings that cannot work */
async function createAcmeProxy({ config, db, log }: AcmeProxyParts): Promise<CsrBackend> {
  const { acme_proxy: proxy } = config.ca
  const settings = acmeProxySettings(config.ca)
  await requireChallengeHandler(proxy)
  const { directoryUrl, email } = settings.account
  return createAcmeProxyBackend({
    settings,
    handler: challengeHandler(proxy, (output) => log.info({ output }, 'the challenge handler said')),
    accounts: createUpstreamAccountStore(db),
    box: upstreamAccountBox(config),
    readFormerKey: () => readReferenceKey(proxy.storage_path, directoryUrl, email),
    note: (message, facts) => log.warn({ event: 'upstream_order', ...facts }, message),
  })
}

type Probed = Pick<GuardedCsrBackend, 'name' | 'isUp' | 'checkHealth'>

/** The first answer may need a TLS handshake, an upstream account and the load of a module. */
const FIRST_ANSWER_MS = 15_000
const ANSWER_MS = 5_000
/** Some CAs limit the number of requests. */
const UP_INTERVAL_MS = 15_000

/**
 * Asks each backend before the service is ready, then in the background; an answer ends the pause of one that was away.
 * A backend that does not answer is only logged, since it may be back before the first order.
 */
async function startBackendProbes(backends: readonly Probed[], intervalMs: number, log: Logger): Promise<Loop> {
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
