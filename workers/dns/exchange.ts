/**
 * One query to one name server and its response, over UDP and TCP (RFC 1035 §4.2, RFC 7766).
 *
 * Over UDP an attacker can guess an answer, so a datagram counts only if it comes from the server's
 * address and port to our random source port and repeats our random id and the randomly cased
 * question. Everything else is ignored, and after a few of those (a forger guesses, or the server
 * does not keep the case) the question is put over TCP instead.
 */

import { createSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import { startTimeLimit } from '../../src/shared/lib/time-limit.ts'
import { type DnsQuery, type DnsResponse, matchQuestion, parseResponse } from './message.ts'

export interface NameServer {
  address: string
  port: number
}

export type Exchange =
  | { kind: 'response'; response: DnsResponse }
  /** The response did not fit, or UDP cannot be trusted for this question: ask over TCP. */
  | { kind: 'use-tcp' }
  /** Nothing came in time, or the query was aborted; asking once more may help. */
  | { kind: 'silence' }
  | { kind: 'failed'; reason: string }

/**
 * A forger needs about 2^30 tries at 16 bits of port, 16 of id and some of
 * case; this many are all it gets.
 */
const MAX_IGNORED_DATAGRAMS = 8

/** Total: every failure is a result. Ends within `timeoutMs`, or at once when `signal` aborts. */
export function exchangeUdp(
  server: NameServer,
  query: DnsQuery,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const { type, lookup } = isIPv6(server.address)
      ? { type: 'udp6' as const, lookup: literal(6) }
      : { type: 'udp4' as const, lookup: literal(4) }
    const socket = createSocket({ type, lookup })
    const finish = (outcome: Exchange) => {
      stopTimer()
      signal.removeEventListener('abort', cancel)
      // The socket can still report an earlier error; the result is known already.
      socket.removeAllListeners().on('error', () => {})
      socket.close()
      resolve(outcome)
    }
    const cancel = () => finish({ kind: 'silence' })
    const stopTimer = startTimeLimit(timeoutMs, cancel)
    if (signal.aborted) return cancel()
    signal.addEventListener('abort', cancel)

    let ignored = 0
    socket.on('error', (error) => finish({ kind: 'failed', reason: errorReason(error) }))
    socket.on('message', (message) => {
      const outcome = readDatagram(message, query)
      if (outcome) finish(outcome)
      else if (++ignored >= MAX_IGNORED_DATAGRAMS) finish({ kind: 'use-tcp' })
    })
    // A connected socket takes datagrams from this peer only, and learns of a closed port at once.
    socket.on('connect', () => socket.send(query.bytes))
    socket.connect(server.port, server.address)
  })
}

/** Undefined when the datagram is not an answer to this query. */
function readDatagram(message: Buffer, query: DnsQuery): Exchange | undefined {
  const match = matchQuestion(message, query)
  if (match === 'recased') return { kind: 'use-tcp' }
  if (match === 'foreign') return undefined
  // The truncation bit is read first: what a server cut off need not parse.
  if ((message[2]! & 0x02) !== 0) return { kind: 'use-tcp' }
  const response = parseResponse(message, query)
  return response
    ? { kind: 'response', response }
    : { kind: 'failed', reason: 'the name server sent a malformed answer' }
}

/** The same over TCP, where the handshake makes the case of the name unnecessary. */
export function exchangeTcp(
  server: NameServer,
  query: DnsQuery,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const socket = connect({ host: server.address, port: server.port })
    const finish = (outcome: Exchange) => {
      stopTimer()
      signal.removeEventListener('abort', cancel)
      socket.removeAllListeners().on('error', () => {})
      socket.destroy()
      resolve(outcome)
    }
    const cancel = () => finish({ kind: 'silence' })
    const stopTimer = startTimeLimit(timeoutMs, cancel)
    if (signal.aborted) return cancel()
    signal.addEventListener('abort', cancel)

    const chunks: Buffer[] = []
    let received = 0
    let expected: number | undefined
    socket.on('error', (error) => finish({ kind: 'failed', reason: errorReason(error) }))
    socket.on('close', () => finish({ kind: 'failed', reason: 'the name server closed the connection' }))
    socket.on('data', (chunk) => {
      // Put together twice at most, however small the pieces are: octet by octet, 64
      // KiB would be copied 32,000 times.
      chunks.push(chunk)
      received += chunk.length
      if (expected === undefined && received >= 2) expected = 2 + Buffer.concat(chunks).readUInt16BE(0)
      if (expected !== undefined && received >= expected)
        finish(readTcpMessage(Buffer.concat(chunks).subarray(2, expected), query))
    })
    socket.write(Buffer.concat([lengthPrefix(query.bytes), query.bytes]))
  })
}

function lengthPrefix(message: Buffer): Buffer {
  const prefix = Buffer.alloc(2)
  prefix.writeUInt16BE(message.length)
  return prefix
}

function readTcpMessage(message: Buffer, query: DnsQuery): Exchange {
  if (matchQuestion(message, query) === 'foreign')
    return { kind: 'failed', reason: 'the name server answered another question' }
  const response = parseResponse(message, query)
  if (!response || response.truncated) return { kind: 'failed', reason: 'the name server sent a malformed answer' }
  return { kind: 'response', response }
}

/** dgram resolves even literals through a look-up; this one keeps the system's resolver out. */
function literal(family: 4 | 6) {
  return (
    host: string,
    _options: unknown,
    callback: (error: NodeJS.ErrnoException | null, address: string, family: number) => void,
  ) => process.nextTick(callback, null, host, family)
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the name server refuses connections',
  ECONNRESET: 'the name server closed the connection',
  EHOSTUNREACH: 'the name server is unreachable',
  ENETUNREACH: 'the name server is unreachable',
}

/** In our words: the reason can reach a client. */
const errorReason = (error: Error) =>
  REASONS[(error as NodeJS.ErrnoException).code ?? ''] ?? 'the name server could not be asked'
