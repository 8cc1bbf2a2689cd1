/**
 * One HTTP GET to one given address, without trust in the other side (RFC 9112).
 *
 * Connecting and asking are two functions so that the caller can try another address only while nothing was sent. There
 * is no agent, no proxy, no look-up, no cookie, no decoding: the socket goes to the address given and nowhere else.
 */

import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Endpoint {
  /** IP address; never a name. */
  address: string
  port: number
  /** Host name of an https URL; its certificate is not verified (see connect). Undefined for plain http. */
  tlsServerName: string | undefined
}

export type FailedPhase = 'connect' | 'tls' | 'exchange'
export interface HttpFailure {
  kind: 'failed'
  phase: FailedPhase
  /** Words of ours, never of the peer. */
  reason: string
}

export interface GetRequest {
  /** Host header, port included where it is not the default. */
  host: string
  /** Path and query, percent-encoded. */
  path: string
  userAgent: string
  /** A longer body ends the exchange with `isTooLong`. */
  maxBodyBytes: number
}

export interface HttpResponse {
  kind: 'response'
  status: number
  /** First Location header as sent. */
  location: string | undefined
  /** Read only when the status is 200, otherwise empty. Raw: no content coding is undone. */
  body: Buffer
  isTooLong: boolean
}

/**
 * Opens a connection; `timeoutMs` covers the TLS handshake. A certificate is not verified: the answer proves control by
 * the key authorization in it, and a host that is about to get its first certificate cannot have a good one yet.
 */
export async function connect(endpoint: Endpoint, timeoutMs: number): Promise<Socket | HttpFailure> {
  const startedAt = performance.now()
  const socket = connectTcp({ host: endpoint.address, port: endpoint.port, noDelay: true })
  const failure = await opened(socket, 'connect', 'connect', timeoutMs)
  if (failure) return failure
  if (endpoint.tlsServerName === undefined) return socket

  const secured = connectTls({
    socket,
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
    // An IP address is not a server name (RFC 6066 §3).
    ...(isIP(endpoint.tlsServerName) === 0 && { servername: endpoint.tlsServerName }),
  })
  const leftMs = timeoutMs - (performance.now() - startedAt)
  return (await opened(secured, 'secureConnect', 'tls', leftMs)) ?? secured
}

/** Undefined once the event came; otherwise the socket is destroyed and the failure told. */
function opened(
  socket: Socket,
  event: string,
  phase: FailedPhase,
  timeoutMs: number,
): Promise<HttpFailure | undefined> {
  return new Promise((resolve) => {
    const finish = (failure: HttpFailure | undefined) => {
      clearTimeout(timer)
      socket.removeAllListeners(event).removeListener('error', onError).removeListener('close', onClose)
      // Errors keep coming after we lost interest, and before the request takes over.
      socket.on('error', () => {})
      if (failure) socket.destroy()
      resolve(failure)
    }
    const fail = (reason: string) => finish({ kind: 'failed', phase, reason })
    const onError = (error: Error) => fail(errorReason(error))
    const onClose = () => fail('connection closed')
    const timer = setTimeout(() => fail('timed out'), Math.max(0, timeoutMs))
    socket.once(event, () => finish(undefined))
    socket.once('error', onError)
    socket.once('close', onClose)
  })
}

/** Sends the request and reads the response; takes the socket over and destroys it. Total within `timeoutMs`. */
export function get(socket: Socket, what: GetRequest, timeoutMs: number): Promise<HttpResponse | HttpFailure> {
  return new Promise((resolve) => {
    let finished = false
    const finish = (outcome: HttpResponse | HttpFailure) => {
      if (finished) return
      finished = true
      clearTimeout(timer)
      socket.destroy()
      resolve(outcome)
    }
    const fail = (reason: string) => finish({ kind: 'failed', phase: 'exchange', reason })
    // The whole response, not the time between two bytes.
    const timer = setTimeout(() => fail('timed out'), timeoutMs)

    const request = httpRequest({
      createConnection: () => socket,
      path: what.path,
      setHost: false,
      headers: {
        host: what.host,
        'user-agent': what.userAgent,
        accept: '*/*',
        'accept-encoding': 'identity',
        connection: 'close',
      },
    })
    request.on('response', (response) => readResponse(response, what.maxBodyBytes, finish, fail))
    request.on('error', (error) => fail(errorReason(error)))
    request.on('close', () => fail('connection closed'))
    request.end()
  })
}

function readResponse(
  response: IncomingMessage,
  maxBodyBytes: number,
  finish: (outcome: HttpResponse) => void,
  fail: (reason: string) => void,
): void {
  const status = response.statusCode ?? 0
  const { location } = response.headers
  const done = (body: Buffer, isTooLong: boolean) => finish({ kind: 'response', status, location, body, isTooLong })

  response.on('error', (error) => fail(errorReason(error)))
  // Only a right answer is worth reading; everything else is judged by its status line.
  if (status !== 200) {
    done(Buffer.alloc(0), false)
    return
  }

  const chunks: Buffer[] = []
  let length = 0
  response.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > maxBodyBytes) return done(Buffer.alloc(0), true)
    chunks.push(chunk)
  })
  response.on('end', () => (response.complete ? done(Buffer.concat(chunks), false) : fail('the body was cut off')))
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ETIMEDOUT: 'timed out',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EADDRNOTAVAIL: 'address not available',
}

/** From the error's code alone: messages can quote what the peer sent. */
function errorReason(error: Error): string {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  if (REASONS[code] !== undefined) return REASONS[code]
  if (code.startsWith('HPE_')) return 'not an HTTP response'
  if (code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO') return 'TLS handshake failed'
  return 'connection failed'
}
