/**
 * One query to one name server, and its response, over UDP and TCP (RFC 1035 §4.2, RFC 7766).
 *
 * An attacker can guess answers over UDP. A datagram counts only from the server's address and port, to our random
 * port. It must repeat our random id and the randomly cased question. All others are ignored, and several of them mean
 * a forger. Then, and where only the case or the question is missing, the query moves to TCP.
 */

import { createSocket } from 'node:dgram'
import type { EventEmitter } from 'node:events'
import { connect, isIPv6 } from 'node:net'
import { startTimeLimit } from '../../src/shared/lib/time-limit.ts'
import { type DnsQuery, type DnsResponse, matchQuestion, parseResponse } from './dns-message.ts'

export interface NameServer {
  address: string
  port: number
}

export type Exchange =
  | { kind: 'response'; response: DnsResponse }
  /** The response did not fit, or UDP cannot be trusted for this question: ask over TCP. */
  | { kind: 'use-tcp' }
  /** No answer in time, or the query was aborted. A repeat may help. */
  | { kind: 'silence' }
  | { kind: 'failed'; reason: string }

/** A forger needs about 2^30 tries: 16 bits of port, 16 of id and some of case. It gets this many. */
const MAX_IGNORED_DATAGRAMS = 8

/** Returns every failure as a result, within `timeoutMs`. An abort of `signal` ends it at once. */
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
    const finish = endingOnce(socket, () => socket.close(), { timeoutMs, signal }, resolve)
    if (signal.aborted) return
    let ignored = 0
    socket.on('message', (message) => {
      const outcome = readDatagram(message, query)
      if (outcome) finish(outcome)
      else if (++ignored >= MAX_IGNORED_DATAGRAMS) finish({ kind: 'use-tcp' })
    })
    // A connected socket accepts datagrams only from this peer, and reports a closed port at once.
    socket.on('connect', () => socket.send(query.bytes))
    socket.connect(server.port, server.address)
  })
}

/** Undefined when the datagram is not an answer to this query. */
function readDatagram(message: Buffer, query: DnsQuery): Exchange | undefined {
  const match = matchQuestion(message, query)
  if (match === 'recased' || match === 'unasked') return { kind: 'use-tcp' }
  if (match === 'foreign') return undefined
  // The truncation bit comes first, because a truncated message may not parse.
  if ((message[2]! & 0x02) !== 0) return { kind: 'use-tcp' }
  const response = parseResponse(message, query)
  return response
    ? { kind: 'response', response }
    : { kind: 'failed', reason: 'the name server sent a malformed answer' }
}

/**
 * One exchange over TCP. The handshake stops forgers, so the case may differ, and the question may be absent (RFC 7766
 * §7).
 */
export function exchangeTcp(
  server: NameServer,
  query: DnsQuery,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Exchange> {
  return new Promise((resolve) => {
    const socket = connect({ host: server.address, port: server.port })
    const finish = endingOnce(socket, () => socket.destroy(), { timeoutMs, signal }, resolve)
    if (signal.aborted) return
    const chunks: Buffer[] = []
    let received = 0
    let expected: number | undefined
    socket.on('close', () => finish({ kind: 'failed', reason: 'the name server closed the connection' }))
    socket.on('data', (chunk) => {
      // Join the chunks at most twice. Joining each octet would copy 64 KiB 32,000 times.
      chunks.push(chunk)
      received += chunk.length
      if (expected === undefined && received >= 2) expected = 2 + Buffer.concat(chunks).readUInt16BE(0)
      if (expected !== undefined && received >= expected)
        finish(readTcpMessage(Buffer.concat(chunks).subarray(2, expected), query))
    })
    socket.write(Buffer.concat([lengthPrefix(query.bytes), query.bytes]))
  })
}

/** @returns the end of an exchange. An error of the socket, the time-out and an abort end it, too. */
function endingOnce(
  socket: EventEmitter,
  close: () => void,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  resolve: (outcome: Exchange) => void,
): (outcome: Exchange) => void {
  const finish = (outcome: Exchange) => {
    stopTimer()
    signal.removeEventListener('abort', cancel)
    // The socket can still report an earlier error, after the result.
    socket.removeAllListeners().on('error', () => {})
    close()
    resolve(outcome)
  }
  const cancel = () => finish({ kind: 'silence' })
  const stopTimer = startTimeLimit(timeoutMs, cancel)
  socket.on('error', (error) => finish({ kind: 'failed', reason: errorReason(error) }))
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel)
  return finish
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

/** dgram looks up even IP addresses; this function keeps out the system's resolver. */
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

/** Our own words, because the reason can reach a client. */
const errorReason = (error: Error) =>
  REASONS[(error as NodeJS.ErrnoException).code ?? ''] ?? 'the name server could not be asked'
