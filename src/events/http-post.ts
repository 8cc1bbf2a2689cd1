/**
 * Posts JSON to a receiver that the operator has named, over connections that are kept, and keeps it from private
 * addresses. The address is checked where the connection is made, so a name that changes in between gains nothing.
 */

import { lookup } from 'node:dns'
import http, { type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { createAddressPolicy } from '../../workers/address-policy.ts'

/** A receiver chooses it. */
const MAX_ANSWER_BYTES = 65_536

export interface PostAnswer {
  status: number
  retryAfter: string | null
  /** The first 64 KiB. */
  text: string
}

/** @throws Error when there is no answer */
type JsonPoster = (body: string, signal: AbortSignal) => Promise<PostAnswer>

/** Which addresses a request may go to. */
interface ReceiverGuard {
  /** @throws its error for an address in the URL itself */
  check(url: URL): void
  lookup: LookupFunction
}

/** An address that the guard refuses; the sentence names no URL. */
export class BlockedReceiver extends Error {}

interface Connection {
  guard?: ReceiverGuard | undefined
  /** PEM of the authorities that are trusted, instead of the system's. */
  ca?: string | undefined
}

/**
 * Posts over connections that are kept. Such a connection keeps the address that was checked when it was made.
 * @param read takes the answer at once, as nobody else listens to its errors
 */
export function poster<T>(url: string, read: (answer: IncomingMessage) => T | Promise<T>, { guard, ca }: Connection) {
  const target = new URL(url)
  const { Agent, request } = target.protocol === 'https:' ? https : http
  const agent = new Agent({ keepAlive: true })
  const connection = { agent, ...(guard && { lookup: guard.lookup }), ...(ca !== undefined && { ca }) }

  return function send(
    body: string,
    type: string,
    signal: AbortSignal,
    more: OutgoingHttpHeaders = {},
    isRepeated = false,
  ): Promise<T> {
    guard?.check(target)
    const length = Buffer.byteLength(body)
    const headers = { 'Content-Type': type, 'Content-Length': length, 'User-Agent': 'chancery', ...more }
    return new Promise((resolve, reject) => {
      const options = { ...connection, method: 'POST', signal, headers }
      const sent = request(target, options, (answer) => resolve(read(answer)))
      sent.on('error', (error) => {
        // The receiver has closed a kept connection at the moment of its use.
        if (sent.reusedSocket && !isRepeated && !signal.aborted)
          send(body, type, signal, more, true).then(resolve, reject)
        else reject(error)
      })
      sent.end(body)
    })
  }
}

/** @param what replaces the URL in errors, because a URL may hold a secret */
export function jsonPoster(what: string, url: string, guard?: ReceiverGuard): JsonPoster {
  const send = poster(url, answerOf, { guard })
  return async (body, signal) => {
    try {
      return await send(body, 'application/json', signal)
    } catch (error) {
      if (error instanceof BlockedReceiver) throw error
      if (signal.aborted) throw new Error(`${what} does not answer in time`)
      const { code } = error as NodeJS.ErrnoException
      throw new Error(`${what} is not reachable${code === undefined ? '' : `: ${code}`}`)
    }
  }
}

async function answerOf(answer: IncomingMessage): Promise<PostAnswer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    // Leaving the loop destroys the rest with its connection.
    if (bytes >= MAX_ANSWER_BYTES) break
  }
  const text = Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES).toString()
  return { status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'] ?? null, text }
}

/** Loopback, private and link-local networks, and the metadata services of clouds. */
const PRIVATE = [
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  '::1/128',
  'fe80::/10',
  'fc00::/7',
  '168.63.129.16/32',
  '192.0.0.0/24',
  '198.18.0.0/15',
]

/** @param blocked the error for an address that is not permitted */
export function receiverGuard(allowPrivate: boolean, blocked: () => Error): ReceiverGuard {
  const policy = createAddressPolicy(allowPrivate ? [] : PRIVATE)
  return {
    check({ hostname }) {
      const literal = hostname.replace(/^\[|\]$/g, '')
      if (isIP(literal) !== 0 && policy.isBlocked(literal)) throw blocked()
    },
    lookup(host, options, callback) {
      lookup(host, { ...options, all: true }, (error, found) => {
        if (error) return callback(error, [])
        const allowed = found.filter(({ address }) => !policy.isBlocked(address))
        const [first] = allowed
        if (!first) return callback(blocked(), [])
        if (options.all) callback(null, allowed)
        else callback(null, first.address, first.family)
      })
    },
  }
}
