/** Backend `acme_proxy`: another ACME service issues, and this service is its client. */

import type { KeyObject } from 'node:crypto'
import type { UpstreamAccountName } from '../../domain/records.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { Slots } from '../../shared/lib/slots.ts'
import { parseTimestamp } from '../../shared/protocol/timestamp.ts'
import { CaError } from '../backend.ts'
import type { CsrBackend, UpstreamRenewal } from '../csr-backend.ts'
import { explanationOf, renewalRetryMs } from '../csr-backend.ts'
import { createHttpClient, type HttpClientOptions } from '../http-client.ts'
import type { ChallengeHandler } from './challenge-handler.ts'
import { certIdOf } from './order-actions.ts'
import { createOrderAdmission } from './order-admission.ts'
import { type OrderParts, OrderTurn } from './order-turn.ts'
import { createUpstreamAccounts, type UpstreamAccountStore } from './upstream-account.ts'
import { type AcmeClient, createAcmeClient, type ExternalCredential, isPassing } from './upstream-client.ts'
import type { ChallengeType } from './upstream-order.ts'
import { UpstreamNonsense, UpstreamProblem } from './upstream-problem.ts'

export interface AcmeProxySettings {
  account: UpstreamAccountName
  binding: ExternalCredential | undefined
  http: Omit<HttpClientOptions, 'maxConnections'>
  challengeType: ChallengeType
  /** From the upstream order to the CSR. */
  orderTimeoutMs: number
  /** From the answers to the upstream order being ready. */
  readyTimeoutMs: number
  maxRetries: number
  maxOrders: number
}

export interface AcmeProxyOptions {
  settings: AcmeProxySettings
  handler: ChallengeHandler
  accounts: UpstreamAccountStore
  box: SecretBox
  readFormerKey(): KeyObject | undefined
  /** For the log. */
  note(message: string, facts: object): void
}

const MAX_CONNECTIONS = 16
/** A step makes several requests, at most so long each. */
const REQUEST_TIMEOUT_MS = 30_000
const STEP_TIMEOUT_MS = 120_000
/** An upstream may reject nonces for reasons of its own, such as several instances. */
const MIN_NONCE_RETRIES = 3

export function createAcmeProxyBackend({
  settings,
  handler,
  accounts: store,
  box,
  readFormerKey,
  note,
}: AcmeProxyOptions): CsrBackend {
  const { account: name, binding, maxRetries } = settings
  const http = createHttpClient({ ...settings.http, maxConnections: MAX_CONNECTIONS })
  const client = createAcmeClient({
    directoryUrl: name.directoryUrl,
    http,
    requestTimeoutMs: Math.min(REQUEST_TIMEOUT_MS, settings.orderTimeoutMs),
    nonceRetries: Math.max(maxRetries, MIN_NONCE_RETRIES),
  })
  const accounts = createUpstreamAccounts({ name, store, box, client, binding, readFormerKey })
  const stepTimeoutMs = STEP_TIMEOUT_MS + handler.timeoutMs
  const parts: OrderParts = {
    client,
    accounts,
    handler,
    gate: new Slots(handler.concurrency),
    // An open order is taken a step further far more often than that.
    admission: createOrderAdmission(settings.maxOrders, 2 * stepTimeoutMs),
    challengeType: settings.challengeType,
    limits: { totalMs: settings.orderTimeoutMs, readyMs: settings.readyTimeoutMs },
    maxRetries,
    note,
  }
  return {
    name: 'acme_proxy',
    stepTimeoutMs,

    advance: (request, state, step) => new OrderTurn(parts, request, step).take(state),

    leave: (request, state, signal) =>
      new OrderTurn(parts, request, { signal, isRepeated: false, isAbandoned: true }).leave(state),

    revoke: ({ certificate, reason }, signal) =>
      asCaError(async () => {
        const { revokeCert } = await client.directory(signal)
        const payload = { certificate: certificate.toString('base64url'), ...(reason !== 0 && { reason }) }
        try {
          await client.post(revokeCert, await accounts.current(signal), payload, signal)
        } catch (error) {
          if (!(error instanceof UpstreamProblem) || error.type !== 'alreadyRevoked') throw error
        }
      }),

    checkHealth: (signal) =>
      asCaError(async () => {
        await client.get(name.directoryUrl, signal)
        await accounts.current(signal)
      }),

    renewalInfo: (certificate, signal) => asCaError(() => upstreamRenewal(client, certificate, signal)),

    async close() {
      http.close()
      await handler.close()
    },
  }
}

/** @throws CaError; final when the upstream has refused for good */
async function asCaError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const { message } = cause instanceof Error ? cause : new Error(String(cause))
    const isFinal = cause instanceof UpstreamProblem && !isPassing(cause)
    throw new CaError(message, { retryable: !isFinal, cause })
  }
}

/** RFC 9773 §4.3.3: six hours where the upstream names no time. */
const DEFAULT_RETRY_MS = 21_600_000

/**
 * The renewal window that the upstream suggests (RFC 9773 §4).
 * @returns undefined when it has no renewal information, or none about this certificate
 */
async function upstreamRenewal(
  client: AcmeClient,
  certificate: Buffer,
  signal: AbortSignal,
): Promise<UpstreamRenewal | undefined> {
  const { renewalInfo } = await client.directory(signal)
  const certId = certIdOf(certificate)
  if (renewalInfo === undefined || certId === undefined) return undefined
  try {
    const { json, retryAfterMs = DEFAULT_RETRY_MS } = await client.get(`${renewalInfo}/${certId}`, signal)
    const { start, end } = windowOf(json?.['suggestedWindow'])
    return {
      start,
      end,
      explanationUrl: explanationOf(json?.['explanationURL']),
      retryAfterMs: renewalRetryMs(retryAfterMs),
    }
  } catch (error) {
    if (error instanceof UpstreamProblem && error.status === 404) return undefined
    throw error
  }
}

function windowOf(value: unknown): { start: Date; end: Date } {
  const { start, end } = (value ?? {}) as { start?: unknown; end?: unknown }
  const window = { start: parsed(start), end: parsed(end) }
  // RFC 9773 §4.2: a window that ends before it starts is to be treated as absent.
  if (!window.start || !window.end || window.start >= window.end)
    throw new UpstreamNonsense('renewal information has no window')
  return { start: window.start, end: window.end }
}

const parsed = (value: unknown) => (typeof value === 'string' ? parseTimestamp(value) : undefined)
