/**
 * One keep-alive HTTP/1.1 connection over TCP or TLS with at most one request under way.
 *
 * Written on sockets instead of `node:http` because the generator shares its machine with the server it measures: this
 * spends a fraction of the CPU per request (docs/benchmarks.md, "What the generator costs").
 */

import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, createSecureContext, type SecureContext } from 'node:tls'
import { Failure } from './failure.ts'
import { type HttpResponse, ResponseParser } from './response-parser.ts'

export interface Target {
  /** `https://host:port` or `http://host:port`, as the URLs of the server begin. */
  origin: string
  secure: boolean
  host: string
  port: number
}

export interface ConnectionSettings {
  target: Target
  /** From `trusting`: one for all connections, because making one costs as much as a handshake. */
  trust: SecureContext
  insecure: boolean
  /** Longest silence while a request is under way. */
  timeoutMs: number
  /** IPv4 address of this machine to come from; absent leaves it to the system. */
  localAddress?: string
}

/** Bytes of requests and responses as HTTP sees them; what TLS adds is not in it. */
export interface Traffic {
  sentBytes: number
  receivedBytes: number
}

interface Pending {
  resolve(response: HttpResponse): void
  reject(failure: Failure): void
}

/** A server ends connections that rest for longer, some after ten seconds, and a request must not cross with that. */
const MAX_REST_MS = 7_000
const READ_BUFFER_BYTES = 32 * 1024

/** @param caCertificates PEM; undefined trusts the system's roots. @throws Error when it holds no certificate. */
export function trusting(caCertificates: string | undefined): SecureContext {
  // Trusting the system's roots is spelled as an absent `ca`.
  return createSecureContext(caCertificates === undefined ? {} : { ca: caCertificates })
}

/** @throws Error when `url` is not an absolute http or https URL. */
export function parseTarget(url: string): Target {
  const { protocol, hostname, port, origin } = new URL(url)
  if (protocol !== 'https:' && protocol !== 'http:') throw new Error(`not an http or https URL: ${url}`)
  const secure = protocol === 'https:'
  return { origin, secure, host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (secure ? 443 : 80) }
}

export class Connection {
  readonly #settings: ConnectionSettings
  readonly #traffic: Traffic
  readonly #headerTail: string
  /** The socket overwrites it with each read; what matters is copied out at once. */
  readonly #readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES)
  #parser = new ResponseParser()
  #socket: Socket | undefined
  #pending: Pending | undefined
  #restingSince = 0

  constructor(settings: ConnectionSettings, traffic: Traffic) {
    this.#settings = settings
    this.#traffic = traffic
    const authority = settings.target.origin.slice(settings.target.origin.indexOf('//') + 2)
    this.#headerTail = ` HTTP/1.1\r\nHost: ${authority}\r\nUser-Agent: chancery-bench\r\n`
  }

  /**
   * Sends one request and waits for its response, whatever its status.
   * A lost connection is not retried: the server may have acted, and a bench must not hide it.
   * @throws Failure `connection`, `timeout` or `protocol`.
   */
  request(method: string, path: string, body?: string): Promise<HttpResponse> {
    const head = `${method} ${path}${this.#headerTail}`
    const message =
      body === undefined
        ? `${head}\r\n`
        : `${head}Content-Type: application/jose+json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    if (this.#socket && !this.isOpen) this.close()
    return new Promise((resolve, reject) => {
      this.#pending = { resolve, reject }
      this.#parser.expect(method)
      this.#socket ??= this.#open()
      this.#socket.write(message, 'latin1')
      this.#traffic.sentBytes += message.length
    })
  }

  /** False as well when it has rested for so long that the next request opens it anew. */
  get isOpen(): boolean {
    return this.#socket !== undefined && performance.now() - this.#restingSince <= MAX_REST_MS
  }

  close(): void {
    this.#drop(new Failure('connection', 'closed by the generator'))
  }

  #open(): Socket {
    const { timeoutMs } = this.#settings
    const socket = openSocket(this.#settings, {
      buffer: this.#readBuffer,
      callback: (length, buffer) => this.#receive((buffer as Buffer).toString('latin1', 0, length)),
    })
    socket.setNoDelay(true)
    socket.setTimeout(timeoutMs)
    // Not as the callback of setTimeout, which an idle period would use up.
    socket.on('timeout', () => {
      if (this.#pending) this.#drop(new Failure('timeout', `no answer within ${timeoutMs} ms`))
    })
    socket.on('error', (error) => this.#dropIf(socket, describeSocketError(error)))
    socket.on('end', () => this.#ended())
    socket.on('close', () => this.#dropIf(socket, 'closed by the server before it answered'))
    return socket
  }

  #receive(bytes: string): true {
    this.#traffic.receivedBytes += bytes.length
    try {
      const response = this.#parser.push(bytes)
      if (response) this.#deliver(response)
    } catch (error) {
      this.#drop(error instanceof Failure ? error : new Failure('protocol', String(error)))
    }
    return true
  }

  #ended(): void {
    const response = this.#parser.end()
    if (response) this.#deliver(response)
  }

  #deliver(response: HttpResponse): void {
    const pending = this.#pending
    this.#pending = undefined
    this.#restingSince = performance.now()
    if (response.close || this.#parser.hasLeftover || !pending) this.close()
    pending?.resolve(response)
  }

  /** A socket that was given up already must not harm its successor. */
  #dropIf(socket: Socket, reason: string): void {
    if (socket === this.#socket) this.#drop(new Failure('connection', reason))
  }

  #drop(failure: Failure): void {
    const pending = this.#pending
    this.#pending = undefined
    this.#socket?.destroy()
    this.#socket = undefined
    this.#parser = new ResponseParser()
    pending?.reject(failure)
  }
}

/** A TCP or TLS socket to a server, connecting; what it receives goes to `onread` when that is given. */
export function openSocket(
  { target, trust, insecure, localAddress }: ConnectionSettings,
  onread?: { buffer: Uint8Array; callback: (length: number, buffer: Uint8Array) => boolean },
): Socket {
  const address = {
    ...{ host: target.host, port: target.port },
    ...(localAddress !== undefined && { localAddress, family: 4 }),
    ...(onread && { onread }),
  }
  if (!target.secure) return connectTcp(address)
  return connectTls({ ...address, secureContext: trust, rejectUnauthorized: !insecure, ...serverName(target.host) })
}

/** An address is no server name (RFC 6066 §3); node would refuse it. */
function serverName(host: string): { servername?: string } {
  return /^[\d.]+$|:/.test(host) ? {} : { servername: host }
}

/** A failed attempt on several addresses arrives as an AggregateError with an empty message. */
function describeSocketError(error: Error & { code?: string }): string {
  return error.message || error.code || 'connection failed'
}
