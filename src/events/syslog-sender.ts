/**
 * Sends events as syslog messages (RFC 5424) over UDP, TCP or TLS, in their frame (RFC 6587 §3.4.1).
 *
 * Syslog has no acknowledgements. A message on a stream counts as delivered when the connection has
 * outlived it for a moment: a receiver that is gone answers with a reset. One on UDP is sent once.
 */

import dgram from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import { type OccurredEvent, severityOf } from '../domain/event.ts'

export interface SyslogTarget {
  host: string
  port: number
  transport: 'udp' | 'tcp' | 'tls'
  /** PEM; undefined means the certificate authorities that Node.js knows. */
  ca: string | undefined
}

export interface SyslogTransport {
  send(message: string): Promise<void>
  close(): void
}

export function syslogTransport(target: SyslogTarget): SyslogTransport {
  return target.transport === 'udp' ? new DatagramTransport(target) : new StreamTransport(target)
}

const ADDRESS_LIFE_MS = 60_000

class DatagramTransport implements SyslogTransport {
  readonly #target: SyslogTarget
  #socket: dgram.Socket | undefined
  #address: { address: string; family: number; until: number } | undefined

  constructor(target: SyslogTarget) {
    this.#target = target
  }

  async send(message: string): Promise<void> {
    const { address, family } = await this.#resolve()
    this.#socket ??= dgram.createSocket(family === 6 ? 'udp6' : 'udp4').on('error', () => this.close())
    const socket = this.#socket
    await new Promise<void>((resolve, reject) => {
      socket.send(datagram(message), this.#target.port, address, (error) => (error ? reject(error) : resolve()))
    })
  }

  close(): void {
    this.#socket?.close()
    this.#socket = undefined
    this.#address = undefined
  }

  async #resolve() {
    const now = performance.now()
    if (this.#address === undefined || this.#address.until < now) {
      const found = await lookup(this.#target.host)
      if (this.#address?.family !== found.family) this.close()
      this.#address = { ...found, until: now + ADDRESS_LIFE_MS }
    }
    return this.#address
  }
}

const CONNECT_TIMEOUT_MS = 5_000
/** A few round trips: a reset that the message causes arrives within them. */
const SETTLE_MS = 250

class StreamTransport implements SyslogTransport {
  readonly #target: SyslogTarget
  #connection: Promise<net.Socket> | undefined

  constructor(target: SyslogTarget) {
    this.#target = target
  }

  async send(message: string): Promise<void> {
    const socket = await this.#connect()
    await new Promise<void>((resolve, reject) => {
      const lost = () => reject(new Error('the connection ended'))
      if (socket.destroyed) return lost()
      socket.once('close', lost)
      const settled = () => {
        socket.off('close', lost)
        resolve()
      }
      // The callback comes when the system has the bytes, or with an error, and then so does `close`.
      socket.write(octetCounted(message), (error) => error ?? setTimeout(settled, SETTLE_MS))
    })
  }

  close(): void {
    this.#connection?.then(
      (socket) => socket.end(),
      () => undefined,
    )
    this.#connection = undefined
  }

  /** All messages share one connection, and one attempt to make it. */
  #connect(): Promise<net.Socket> {
    if (this.#connection) return this.#connection
    const connection = this.#open()
    const forget = () => {
      if (this.#connection === connection) this.#connection = undefined
    }
    connection.then((socket) => socket.once('close', forget), forget)
    this.#connection = connection
    return connection
  }

  async #open(): Promise<net.Socket> {
    const { host, port, transport, ca } = this.#target
    const isName = net.isIP(host) === 0
    const socket =
      transport === 'tls'
        ? tls.connect({ host, port, ...(ca !== undefined && { ca }), ...(isName && { servername: host }) })
        : net.connect({ host, port })
    // `close` follows every error, one after the time limit, too.
    socket.on('error', () => undefined)
    try {
      const event = transport === 'tls' ? 'secureConnect' : 'connect'
      await once(socket, event, { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) })
    } catch (error) {
      socket.destroy()
      throw error
    }
    // Data from a receiver mean nothing, but its end does.
    socket.on('end', () => socket.destroy())
    socket.setKeepAlive(true, 30_000).setMaxListeners(0).resume()
    return socket
  }
}

/** `event` and `data` are named as the receivers of earlier exports know them. */
export function renderAuditRecord({ id, kind, subject, accountId, occurredAt, data }: OccurredEvent): string {
  return JSON.stringify({
    event: kind,
    event_id: id,
    occurred_at: occurredAt.toISOString(),
    subject,
    ...(accountId !== undefined && { account_id: accountId }),
    data,
  })
}

interface SyslogSender {
  hostname: string
  processId: number
}

/** RFC 5424 §6.2.1: log audit. */
const FACILITY = 13

/** The number is for examples (RFC 5612); this project has none of its own. */
const STRUCTURE = 'event@32473'

export function renderSyslogMessage(event: OccurredEvent, { hostname, processId }: SyslogSender): string {
  const priority = FACILITY * 8 + severityOf(event.kind)
  const parameters = Object.entries({
    id: event.id,
    kind: event.kind,
    subject: event.subject,
    account: event.accountId,
  }).flatMap(([name, value]) => (value === undefined ? [] : [` ${name}="${escapeParameter(value)}"`]))
  const head = `<${priority}>1 ${event.occurredAt.toISOString()} ${visible(hostname, 255)} chancery ${processId} ${event.kind}`
  return `${head} [${STRUCTURE}${parameters.join('')}] ${inAscii(renderAuditRecord(event))}`
}

/** On a stream, the length comes before the message. */
const octetCounted = (message: string) => `${Buffer.byteLength(message)} ${message}`

/** RFC 5426 §3.2: every receiver should take so much in one datagram. */
const MAX_DATAGRAM = 2_048

const datagram = (message: string) => Buffer.from(message).subarray(0, MAX_DATAGRAM)

/** RFC 5424 §6.3.3. */
const escapeParameter = (value: string) => inAscii(value.replace(/["\\\]]/g, '\\$&'))

/** RFC 5424 §6.2.4: visible ASCII, and a dash for nothing. */
const visible = (value: string, most: number) => value.replace(/[^!-~]/g, '').slice(0, most) || '-'

/** Without other characters, no byte-order mark is due (RFC 5424 §6.4), and a cut splits none. */
const inAscii = (text: string) =>
  text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
