/**
 * One HTTP GET over an open connection to an untrusted server (RFC 9112).
 *
 * The request goes only to the given socket: no agent, proxy, look-up, cookie or decoding.
 */

import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { limitReceived } from '../src/shared/lib/received-limit.ts'
import { startTimeLimit } from '../src/shared/lib/time-limit.ts'
import { type ConnectionFailure, errorReason, SENT_WITHOUT_END } from './outbound-connection.ts'

interface GetRequest {
  /** Host header, with any port other than the default. */
  host: string
  /** Path and query, percent-encoded. */
  path: string
  userAgent: string
  /** A longer body ends the exchange with `isTooLong`. */
  maxBodyBytes: number
}

/**
 * Limit for all bytes beside the body: informational responses, heads, chunk sizes, trailers. One
 * read of Node is at most as long.
 */
const MAX_OVERHEAD_BYTES = 65_536
/** Limit for one head (RFC 9110 §5.4 sets none). */
const MAX_HEAD_BYTES = 16_384

export interface HttpResponse {
  kind: 'response'
  status: number
  /** First Location header. Octets outside ASCII are percent-encoded; PHP sends raw UTF-8. */
  location: string | undefined
  /** Raw, without content decoding. Empty unless the status is 200. */
  body: Buffer
  isTooLong: boolean
}

/**
 * Sends the request and reads the response, for any input, within `timeoutMs`. It owns the socket
 * and destroys it.
 */
export function get(socket: Socket, what: GetRequest, timeoutMs: number): Promise<HttpResponse | ConnectionFailure> {
  return new Promise((resolve) => {
    let finished = false
    const finish = (outcome: HttpResponse | ConnectionFailure) => {
      if (finished) return
      finished = true
      stopTimer()
      socket.destroy()
      resolve(outcome)
    }
    const fail = (reason: string) => finish({ kind: 'failed', phase: 'exchange', reason })
    // Limits the whole response, not the gap between two bytes.
    const stopTimer = startTimeLimit(timeoutMs, () => fail('timed out'))

    const request = httpRequest({
      createConnection: () => socket,
      path: what.path,
      setHost: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      // Shell scripts end lines with LF alone. One response on a connection cannot be split from another (RFC 9112 §11.1).
      insecureHTTPParser: true,
      headers: {
        host: what.host,
        'user-agent': what.userAgent,
        accept: '*/*',
        'accept-encoding': 'identity',
        connection: 'close',
      },
    })
    limitReceived(request, MAX_OVERHEAD_BYTES + what.maxBodyBytes, () => fail(SENT_WITHOUT_END))
    request.on('response', (response) => readResponse(response, what.maxBodyBytes, finish, fail))
    request.on('error', (error) => fail(errorReason(error)))
    request.on('close', () => fail('connection closed'))
    request.end()
  })
}

/** Node has one character for each octet of a header. */
const encodeOctet = (octet: string) => `%${octet.charCodeAt(0).toString(16).toUpperCase()}`

function readResponse(
  response: IncomingMessage,
  maxBodyBytes: number,
  finish: (outcome: HttpResponse) => void,
  fail: (reason: string) => void,
): void {
  const status = response.statusCode ?? 0
  const location = response.headers.location?.replaceAll(/[\x80-\xff]/g, encodeOctet)
  const done = (body: Buffer, isTooLong: boolean) => finish({ kind: 'response', status, location, body, isTooLong })

  response.on('error', (error) => fail(errorReason(error)))
  // Only status 200 needs its body; other responses fail or redirect.
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
