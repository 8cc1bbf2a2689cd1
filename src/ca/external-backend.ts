/**
 * Backend `external`: a CA behind HTTP that takes a CSR and answers with a chain
 * (docs/operations/backends.md has the messages).
 *
 * A lost answer leaves open whether a certificate exists. Only a CA that knows its idempotency keys
 * is asked again then; another one ends the order.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../shared/lib/errors.ts'
import { parseCertificate, serialNumberHex } from '../shared/pki/certificate.ts'
import { decodePem, encodePem, PemError } from '../shared/pki/pem.ts'
import { problemDocument } from '../shared/protocol/problem.ts'
import { CaError } from './backend.ts'
import type { BackendState, CsrBackend, IssuanceRequest, IssuanceStep, StepOptions } from './csr-backend.ts'
import { createHttpClient, type HttpAnswer, type HttpClient, retryAfterMs, Unreachable } from './http-client.ts'

export interface ExternalSettings {
  signUrl: string
  /** Undefined when revocations are not reported to the CA. */
  revokeUrl: string | undefined
  credential: { header: string; value: string } | undefined
  /** PEM, trusted in addition to the roots of Node.js. */
  extraRoots: string | undefined
  /** PEM of the client certificate and its key. */
  client: { certificate: string; key: string } | undefined
  proxyUrl: string | undefined
  /** Whether a repeated idempotency key gets the same certificate. */
  isIdempotent: boolean
  /** For one request. */
  timeoutMs: number
  /** Attempts after the first. */
  maxRetries: number
  /** Before the second attempt; it doubles. */
  retryDelayMs: number
}

const NAME = 'external'
/** A chain of ten RSA-4096 certificates has 20 KiB. */
const MAX_ANSWER_BYTES = 262_144
const MAX_CONNECTIONS = 32
const LONGEST_RETRY_MS = 30_000
/** Each request ends first by its own two limits: the wait for a connection, and the exchange. */
const STEP_MARGIN_MS = 5_000
/** How often a CA that issues later is asked, when it does not say. */
const POLL_MS = 5_000
const SHORTEST_POLL_MS = 1_000
const LONGEST_POLL_MS = 300_000
/** Nothing was sent where a connection was not even made. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_\w+|EHOSTUNREACH|ENETUNREACH|\w*CERT\w*|ERR_TLS_\w+|UNABLE_TO_\w+|DEPTH_ZERO_\w+)$/

/** The question to the CA: for a new certificate, or for one that was promised. */
type Asked = {
  isPoll: boolean
  /** Whether an earlier request may have issued. */
  mayHaveIssued: boolean
  body: object
}

export function createExternalBackend(settings: ExternalSettings): CsrBackend {
  const client = createHttpClient({
    extraRoots: settings.extraRoots,
    ...(settings.client && { client: settings.client }),
    verify: true,
    proxyUrl: settings.proxyUrl,
    maxConnections: MAX_CONNECTIONS,
  })
  const post = poster(client, settings)
  const attempts = settings.maxRetries + 1
  return {
    name: NAME,
    ...(settings.revokeUrl === undefined && { ignoresRevocations: true }),
    stepTimeoutMs: attempts * 2 * settings.timeoutMs + settings.maxRetries * LONGEST_RETRY_MS + STEP_MARGIN_MS,
    async advance(request, state, options) {
      const requestId = requestIdOf(state)
      if (requestId === undefined) refuseRepetition(options, settings)
      if (requestId === undefined && options.isAbandoned && !settings.isIdempotent) return nothingToCome()
      const asked: Asked =
        requestId === undefined
          ? { isPoll: false, mayHaveIssued: options.isRepeated, body: signRequest(request) }
          : {
              isPoll: true,
              mayHaveIssued: true,
              body: { request_id: requestId, idempotency_key: request.certificateId },
            }
      return read(await post(settings.signUrl, asked, options.signal))
    },
    async revoke({ certificate, reason }, signal) {
      if (settings.revokeUrl === undefined) return
      const serialNumber = serialNumberHex(parseCertificate(certificate).tbs.serialNumber)
      const body = {
        serial_number: serialNumber,
        reason,
        certificate: encodePem('CERTIFICATE', certificate),
      }
      const answer = await post(settings.revokeUrl, { isPoll: true, mayHaveIssued: false, body }, signal)
      if (answer.status < 200 || answer.status > 204)
        throw new CaError(`${NAME} did not confirm the revocation: ${shown(answer)}`, { retryable: true })
    },
    // Any answer of the CA shows that it is there; a HEAD asks for no certificate.
    async checkHealth(signal) {
      const { timeoutMs } = settings
      const request = { method: 'HEAD' as const, url: settings.signUrl, headers: headersOf(settings) }
      const { status } = await client
        .send({ ...request, maxBytes: MAX_ANSWER_BYTES, timeoutMs, signal })
        .catch((cause) => {
          throw new CaError(`${NAME} is not reachable: ${messageOf(cause)}`, { retryable: true, cause })
        })
      if (AWAY_BEHIND_PROXY.has(status)) throw new CaError(`${NAME} is not reachable: ${status}`, { retryable: true })
    },
    async close() {
      client.close()
    },
  }
}

/** @throws CaError for a request that may have been heard, and must not be heard twice */
function refuseRepetition({ isRepeated }: StepOptions, { isIdempotent }: ExternalSettings): void {
  if (!isRepeated || isIdempotent) return
  throw new CaError(`${NAME} was asked before, and its answer is lost; ca.external.idempotent is false`, {
    retryable: false,
    mayHaveIssued: true,
  })
}

function nothingToCome(): IssuanceStep {
  const problem = problemDocument('serverInternal', 'the CA did not issue the certificate in time')
  return { status: 'refused', problem, reason: 'the order had failed before the CA was asked', contact: 'none' }
}

function requestIdOf(state: BackendState | undefined): string | undefined {
  if (typeof state !== 'object' || state === null || Array.isArray(state)) return undefined
  const { requestId } = state as { requestId?: unknown }
  return typeof requestId === 'string' ? requestId : undefined
}

function signRequest(request: IssuanceRequest): object {
  return {
    csr: encodePem('CERTIFICATE REQUEST', request.csr),
    profile: request.profile,
    validity_days: request.validityDays,
    not_before: request.notBefore.toISOString(),
    not_after: request.notAfter.toISOString(),
    identifiers: request.identifiers,
    idempotency_key: request.certificateId,
  }
}

function headersOf({ credential }: ExternalSettings): Record<string, string> {
  return {
    'Content-Type': 'application/json',
    Accept: 'application/json',
    // A kept connection that the CA closes meanwhile would leave open whether it has read the request.
    Connection: 'close',
    ...(credential && { [credential.header]: credential.value }),
  }
}

/** Sends with retries. @returns the first answer that is worth reading @throws CaError */
function poster(client: HttpClient, settings: ExternalSettings) {
  const { timeoutMs, maxRetries, retryDelayMs } = settings

  async function once(url: string, asked: Asked, signal: AbortSignal): Promise<HttpAnswer> {
    const text = JSON.stringify(asked.body)
    const request = { method: 'POST' as const, url, headers: headersOf(settings), body: text }
    const answer = await client.send({ ...request, maxBytes: MAX_ANSWER_BYTES, timeoutMs, signal }).catch((cause) => {
      throw lostAnswer(cause, asked, settings)
    })
    if (isBusy(answer.status)) throw busy(answer, asked, settings)
    if (asked.mayHaveIssued && isRefusal(answer.status)) throw withheld(answer)
    return answer
  }

  return async (url: string, first: Asked, signal: AbortSignal): Promise<HttpAnswer> => {
    let asked = first
    for (let failed = 0; ; failed++) {
      try {
        return await once(url, asked, signal)
      } catch (error) {
        if (failed >= maxRetries || !(error instanceof CaError) || !error.retryable) throw error
        const pauseMs = error.retryAfterMs ?? retryDelayMs * 2 ** failed
        // A longer wait is better spent without a connection.
        if (pauseMs > LONGEST_RETRY_MS) throw error
        asked = { ...asked, mayHaveIssued: asked.mayHaveIssued || error.mayHaveIssued }
        await sleep(pauseMs, undefined, { signal }).catch(() => {
          throw error
        })
      }
    }
  }
}

/** 408, too: the CA may have read the request. */
const isBusy = (status: number) => status === 408 || status === 429 || status >= 500
const isRefusal = (status: number) => status >= 400 && status < 500
/** From a proxy in front of a CA that is away. */
const AWAY_BEHIND_PROXY = new Set([502, 503, 504])
/** Refusals of a key or a path that an operator mends; the certificate is then still there. */
const UNHEARD = new Set([401, 403, 404])

/** 429 and 503 are given before any work; behind another error the CA may have issued. */
function busy(answer: HttpAnswer, { isPoll, mayHaveIssued }: Asked, settings: ExternalSettings): CaError {
  const hasNotIssued = answer.status === 429 || answer.status === 503
  const pauseMs = retryAfterMs(headerOf(answer, 'retry-after'), Date.now())
  return new CaError(`${NAME} answered ${shown(answer)}`, {
    retryable: hasNotIssued || isPoll || settings.isIdempotent,
    mayHaveIssued: mayHaveIssued || !hasNotIssued,
    retryAfterMs: pauseMs,
    ...(answer.status === 429 && { pauseMs: pauseMs ?? 0 }),
  })
}

/** A certificate may exist, and the CA does not give it. */
function withheld(answer: HttpAnswer): CaError {
  return new CaError(`${NAME} does not give what it may have issued: ${shown(answer)}`, {
    retryable: UNHEARD.has(answer.status),
    mayHaveIssued: true,
  })
}

function lostAnswer(cause: unknown, { isPoll, mayHaveIssued }: Asked, { isIdempotent }: ExternalSettings): CaError {
  const code = ((cause as Error | undefined)?.cause as NodeJS.ErrnoException | undefined)?.code ?? ''
  const wasSent = !(cause instanceof Unreachable && (!cause.hadConnection || NOT_SENT.test(code)))
  return new CaError(`no answer of ${NAME}: ${messageOf(cause)}`, {
    retryable: !wasSent || isPoll || isIdempotent,
    mayHaveIssued: mayHaveIssued || wasSent,
    cause,
  })
}

/** @throws CaError for an answer that is neither a chain nor a promise nor a refusal */
function read(answer: HttpAnswer): IssuanceStep {
  const { status } = answer
  if (isRefusal(status)) return refusal(answer)
  const body = jsonOf(answer)
  if ((status === 200 || status === 201) && typeof body?.['certificate_chain'] === 'string')
    return { status: 'issued', chain: chainOf(body['certificate_chain']) }
  const requestId = body?.['request_id']
  const isPending = status === 202 || (status === 200 && body?.['status'] === 'pending')
  if (isPending && typeof requestId === 'string' && requestId !== '' && requestId.length <= 255)
    return {
      status: 'pending',
      state: { requestId },
      retryAfterMs: pollAfterMs(answer),
      mayHaveIssued: true,
    }
  // Redirects end here, too: they are never followed.
  throw new CaError(`${NAME} answered what is neither a chain nor a promise: ${shown(answer)}`, {
    retryable: false,
    mayHaveIssued: true,
  })
}

function pollAfterMs(answer: HttpAnswer): number {
  const asked = retryAfterMs(headerOf(answer, 'retry-after'), Date.now()) ?? POLL_MS
  return Math.min(LONGEST_POLL_MS, Math.max(SHORTEST_POLL_MS, asked))
}

function refusal(answer: HttpAnswer): IssuanceStep {
  const problem = problemDocument('serverInternal', 'the CA refused to issue this certificate')
  return { status: 'refused', problem, reason: `${NAME} refused: ${shown(answer)}` }
}

/** @throws CaError */
function chainOf(pem: string): Buffer[] {
  try {
    return decodePem(pem).flatMap(({ label, der }) => (label === 'CERTIFICATE' ? [der] : []))
  } catch (error) {
    if (!(error instanceof PemError)) throw error
    throw new CaError(`the chain of ${NAME} is no PEM: ${error.message}`, { retryable: false, mayHaveIssued: true })
  }
}

function jsonOf({ body }: HttpAnswer): Record<string, unknown> | undefined {
  try {
    // RFC 8259 §8.1 lets a parser ignore a BOM, and a BOM should not cost a certificate.
    const value = JSON.parse(body.toString('utf8').replace(/^\uFEFF/, '')) as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function headerOf({ headers }: HttpAnswer, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

const MAX_SHOWN_CHARACTERS = 500

/** For the log, without control characters. */
function shown({ status, body }: HttpAnswer): string {
  const text = body
    .subarray(0, MAX_SHOWN_CHARACTERS)
    .toString('utf8')
    .replaceAll(/\p{Cc}+/gu, ' ')
  return `${status} ${text}`.trim()
}
