/** The backends that issue from a CSR, in the supervisor: how each is made, its circuit breaker and its metrics. */

import type { Logger } from 'pino'
import { createAcmeProxyBackend } from '../../ca/acme-proxy/acme-proxy-backend.ts'
import { readReferenceKey } from '../../ca/acme-proxy/upstream-account.ts'
import type { CsrBackend } from '../../ca/csr-backend.ts'
import { createExternalBackend } from '../../ca/external-backend.ts'
import {
  type BackendCall,
  createCircuitBreaker,
  type GuardedCsrBackend,
  guardCsrBackend,
} from '../../ca/guarded-backend.ts'
import { createModuleBackend, type LoadableModule, loadCaModule } from '../../ca/module/module-backend.ts'
import { moduleContent } from '../../ca/module/signing-steps.ts'
import { csrBackendNames, isModule } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { beginAtZero, type Metrics } from '../../ops/metrics.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import {
  acmeProxySettings,
  challengeHandler,
  requireChallengeHandler,
  upstreamAccountBox,
} from '../../settings/acme-proxy-settings.ts'
import { breakerSettings, caModules, externalSettings } from '../../settings/backend-settings.ts'
import { certificateProfiles } from '../../settings/order-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import type { Database } from '../../store/database.ts'
import { createUpstreamAccountStore } from '../../store/upstream-account-store.ts'
import type { StartContext } from '../start-context.ts'
import { serialNumbers } from './start-issuance.ts'

interface BackendParts {
  config: Config
  db: Database
  log: Logger
}

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

export async function startCsrBackends(
  { config, log, metrics, parts }: StartContext,
  db: Database,
  flags: Pick<SharedFlags, 'leaveAlone'>,
): Promise<CsrBackends> {
  const backends = new Map<string, GuardedCsrBackend>()
  const stopping = new AbortController()
  for (const name of csrBackendNames(config)) {
    const created = await createCsrBackend(name, { config, db, log })
    const backend = parts.add(`backend ${name}`, created, (one) => one.close())
    const onWait = (ms: number) => flags.leaveAlone(name, ms)
    backends.set(name, guard(backend, { config, stopping: stopping.signal, metrics, log, onWait }))
  }
  if (backends.size === 0) return backends
  const probes = await startBackendProbes([...backends.values()], config.ca.failover.probe_seconds * 1000, log)
  parts.add('backend probes', probes, (loop) => {
    // Steps under way have ended by now, or are cut off.
    stopping.abort(new Error('the service is stopping'))
    return loop.stop()
  })
  return backends
}

interface GuardParts {
  config: Config
  stopping: AbortSignal
  metrics: Metrics
  log: Logger
  /** Tells how long the backend is left alone now, in milliseconds. */
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

/** The backend `acme_proxy`. @throws Error in a plain sentence for settings that cannot work */
async function createAcmeProxy({ config, db, log }: BackendParts): Promise<CsrBackend> {
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

/** Loads every module in use once. @throws Error in a plain sentence that names the key */
export async function requireCaModules(config: Config): Promise<LoadableModule[]> {
  return Promise.all(caModules(config).map(({ module, key }) => loadCaModule(module, key)))
}

/** @throws Error in a plain sentence for a module that cannot be used */
async function createCaModule(name: string, { config, db, log }: BackendParts): Promise<CsrBackend> {
  const settings = caModules(config).find((one) => one.name === name)
  if (!settings) throw new Error(`${name} is not among the modules in use`)
  const { key, timeoutMs, concurrency } = settings
  const module = await loadCaModule(settings.module, key)
  const profiles = certificateProfiles(config)
  const { aia_issuer_urls: caIssuersUrls, policy_oids: policyOids } = config.ca
  const backend = createModuleBackend({
    name,
    module,
    timeoutMs,
    concurrency,
    profileOf: (profile) => profiles.get(profile),
    build: moduleContent({ profiles, caIssuersUrls, policyOids }, serialNumbers(config, db)),
    onOutput: (output) => log.info({ backend: name, output }, 'a CA module has printed something'),
  })
  if (backend.ignoresRevocations)
    log.warn({ backend: name }, 'the CA module has no method revoke; its CA is not told of revocations')
  return backend
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
      const reason = messageOf(error)
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
