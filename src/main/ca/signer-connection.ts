/** The CA of a thread: its connection to the signer, and what guards it. */

import type { Logger } from 'pino'
import { readSharedSecret } from '../../../signer/protocol/handshake.ts'
import { type CaBackend, CaError, type CaOutage } from '../../ca/backend.ts'
import { type CircuitBreaker, createCircuitBreaker, guardBackend } from '../../ca/guarded-backend.ts'
import { SignerBackend } from '../../ca/signer-backend.ts'
import type { SignerPlace } from '../../ca/signer-place.ts'
import { csrBackendNames } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { startLoop } from '../../runtime/loop.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import { breakerSettings } from '../../settings/backend-settings.ts'

const PROBE_TIMEOUT_MS = 5_000

export function connectSigner(signer: SignerPlace, log: Logger): CaBackend {
  let logged: string | undefined
  return new SignerBackend({
    socketPath: signer.socketPath,
    secret: readSharedSecret(signer.secretFile),
    onConnect({ version, issuers }) {
      logged = undefined
      log.debug({ version, issuers: issuers.map(({ id }) => id) }, 'signer connected')
    },
    onIssuersChanged: (issuers) =>
      log.info({ issuers: issuers.map(({ id }) => id) }, 'the signer has other issuers now'),
    onIssuersRejected: ({ message }) =>
      log.error({ reason: message }, 'the signer has issuers that cannot be used; those of before stay'),
    onDisconnect({ message }) {
      // A long outage repeats the same reason at every attempt.
      log[message === logged ? 'debug' : 'warn']({ reason: message }, 'signer not reachable')
      logged = message
    },
  })
}

/** The CA for issuance, with the stop switch and the circuit breaker (`ca.circuit_breaker_*`). */
export function connectCa({
  config,
  signer,
  flags,
  metrics,
  log,
}: {
  config: Config
  /** Undefined when no certificate is signed here. */
  signer: SignerPlace | undefined
  flags: SharedFlags
  metrics: Metrics
  log: Logger
}): CaBackend {
  const { failures, recoveryMs } = breakerSettings(config)
  const breaker = createCircuitBreaker(
    { failures, recoveryMs },
    {
      opened() {
        metrics.caCircuitOpened.inc()
        log.error({ failures, recoveryMs }, 'the CA backend failed again and again; it is left alone for a while')
      },
      closed: () => log.warn('the CA backend is available again'),
    },
  )
  const backend = signer ? connectSigner(signer, log) : absentSigner()
  const guarded = timed(
    guardBackend(backend, breaker, () => flags.isOn('stopSigning')),
    metrics,
  )
  if (csrBackendNames(config).length === 0) return guarded
  return probed(guarded, breaker, config.ca.failover.probe_seconds * 1000)
}

/** A refusal takes no time and would flatter the figure. */
const timed = (ca: CaBackend, { signingSeconds }: Metrics): CaBackend => ({
  ...ca,
  async signCertificate(...args) {
    const startedAt = performance.now()
    const signed = await ca.signCertificate(...args)
    signingSeconds.observe((performance.now() - startedAt) / 1_000)
    return signed
  },
})

/**
 * Where another backend takes over, no issuance tests the signer after an outage. A probe does, and
 * its success closes the breaker.
 */
function probed(ca: CaBackend, breaker: CircuitBreaker, intervalMs: number): CaBackend {
  const probes = startLoop({
    name: 'signer_probe',
    intervalMs,
    async round() {
      if (breaker.retryAfterMs() > 0 && !ca.unreachable()) await ca.testSign({ timeoutMs: PROBE_TIMEOUT_MS })
    },
    // The log has a line of the outage.
    onError: () => undefined,
  })
  return {
    ...ca,
    async close() {
      await probes.stop()
      await ca.close()
    },
  }
}

const OUTAGE: CaOutage = { reason: 'no backend of this service signs', retryAfterSeconds: 60 }

const refuse = () => Promise.reject(new CaError(OUTAGE.reason, { retryable: true }))

/** The signer of a service whose certificates all come from elsewhere: it has no issuer. */
function absentSigner(): CaBackend {
  return {
    kind: 'absent',
    issuers: () => [],
    outage: () => OUTAGE,
    signCertificate: refuse,
    signCrl: refuse,
    testSign: async () => [],
    unreachable: () => undefined,
    health: async () => ({ signing: true, tokens: [] }),
    close: async () => {},
  }
}
