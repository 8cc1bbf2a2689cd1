/** A name server for tests: real UDP and TCP sockets on loopback, every answer scripted. */

import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import dnsPacket from 'dns-packet'

export interface Asked {
  /** Lower case. */
  name: string
  type: string
  transport: 'udp' | 'tcp'
  from: { address: string; port: number }
  query: dnsPacket.DecodedPacket
  /** Wire form of the query. */
  bytes: Buffer
}

export interface Reply {
  answers?: dnsPacket.Answer[]
  authorities?: dnsPacket.Answer[]
  /** Numeric response code. */
  rcode?: number
  flags?: number
  /** Last word on the message before it is sent. */
  change?: (message: dnsPacket.Packet) => void
}

/**
 * Raw bytes are sent as they are; `drop` sends nothing; `close` ends a TCP connection without an answer; a list sends
 * several datagrams (or messages) in a row; a function takes a TCP connection over.
 */
export type Scripted = Reply | Buffer | 'drop' | 'close' | Buffer[] | TakeOver
export type TakeOver = (socket: Socket) => void
export type Script = (asked: Asked) => Scripted | Promise<Scripted>

export interface ScriptedDns {
  /** For `DnsSettings.resolvers`. */
  resolver: string
  asked: Asked[]
  close(): Promise<void>
}

export const SERVFAIL = 2
export const NXDOMAIN = 3

type SimpleType = 'A' | 'AAAA' | 'CNAME' | 'NS'
const recordOf =
  (type: SimpleType) =>
  (name: string, data: string): dnsPacket.Answer => ({ type, name, data, ttl: 60 })
export const a = recordOf('A')
export const aaaa = recordOf('AAAA')
export const cname = recordOf('CNAME')
export const ns = recordOf('NS')
/** `strings` is what the record's strings are; one of them may be bytes. */
export function txt(name: string, ...strings: (string | Buffer)[]): dnsPacket.Answer {
  return { type: 'TXT', name, data: strings, ttl: 60 }
}
export function soa(name: string): dnsPacket.Answer {
  return { type: 'SOA', name, ttl: 60, data: { mname: `ns.${name}`, rname: `admin.${name}`, serial: 1 } }
}

/** Questions of a look that finds nothing: in random case of letters, and in lower case. */
export const ONE_LOOK = 2

/** The usual zone file: addresses by name, empty answers for types a known name lacks, NXDOMAIN for other names. */
export function zoneScript(zone: Record<string, readonly string[]>): Script {
  return ({ name, type }) => {
    const addresses = zone[name]
    if (!addresses) return { rcode: NXDOMAIN }
    const records = addresses.map((address) => (address.includes(':') ? aaaa(name, address) : a(name, address)))
    return { answers: records.filter((record) => record.type === type) }
  }
}

/** @param options a fixed `port` when servers on several addresses must share one; `tcp: false` has TCP refused */
export async function startDns(
  script: Script,
  host = '127.0.0.1',
  options: { port?: number; tcp?: boolean } = {},
): Promise<ScriptedDns> {
  const asked: Asked[] = []
  const sockets = new Set<Socket>()

  async function answer(
    bytes: Buffer,
    transport: Asked['transport'],
    from: Asked['from'],
  ): Promise<Buffer[] | 'close' | TakeOver> {
    const query = dnsPacket.decode(bytes)
    const question = query.questions![0]!
    const entry: Asked = { name: question.name.toLowerCase(), type: question.type, transport, from, query, bytes }
    asked.push(entry)
    const reply = await script(entry)
    if (reply === 'drop') return []
    if (reply === 'close' || typeof reply === 'function') return reply
    if (Buffer.isBuffer(reply)) return [reply]
    return Array.isArray(reply) ? reply : [encodeReply(query, reply)]
  }

  const tcp = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.once('data', async (chunk) => {
      const from = { address: socket.remoteAddress!, port: socket.remotePort! }
      const messages = await answer(chunk.subarray(2), 'tcp', from)
      if (messages === 'close') socket.end()
      else if (typeof messages === 'function') messages(socket)
      else
        for (const message of messages) {
          const prefix = Buffer.alloc(2)
          prefix.writeUInt16BE(message.length)
          socket.write(Buffer.concat([prefix, message]))
        }
    })
  })
  const udp = createSocket(host.includes(':') ? 'udp6' : 'udp4')
  const port = await listenOnOnePort(tcp, udp, host, options.port ?? 0)
  if (options.tcp === false) tcp.close()
  udp.on('message', async (bytes: Buffer, from: RemoteInfo) => {
    const messages = await answer(bytes, 'udp', from)
    if (messages === 'close' || typeof messages === 'function') return
    for (const message of messages) udp.send(message, from.port, from.address)
  })

  return {
    resolver: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
    asked,
    async close() {
      for (const socket of sockets) socket.destroy()
      udp.close()
      await Promise.all([once(udp, 'close'), ...(tcp.listening ? [once(tcp.close(), 'close')] : [])])
    },
  }
}

/** Closes at the end of the test. */
export async function kept<S extends { close(): Promise<void> }>(t: TestContext, starting: Promise<S>): Promise<S> {
  const server = await starting
  t.after(() => server.close())
  return server
}

export const serve = (t: TestContext, ...how: Parameters<typeof startDns>) => kept(t, startDns(...how))

/** Truncated over UDP, and this over TCP. */
export const viaTcp =
  (script: Script, flags = 0): Script =>
  (asked) =>
    asked.transport === 'udp' ? { flags: dnsPacket.TRUNCATED_RESPONSE | flags } : script(asked)

/** A response to `query` that repeats its id and question. */
export function encodeReply(query: dnsPacket.DecodedPacket, reply: Reply): Buffer {
  const message: dnsPacket.Packet = {
    type: 'response',
    id: query.id!,
    flags: dnsPacket.RECURSION_DESIRED | dnsPacket.RECURSION_AVAILABLE | (reply.flags ?? 0) | (reply.rcode ?? 0),
    questions: query.questions!,
    answers: reply.answers ?? [],
    authorities: reply.authorities ?? [],
  }
  reply.change?.(message)
  return dnsPacket.encode(message)
}

/** The port TCP was given may be taken for UDP; then another one is tried. */
async function listenOnOnePort(tcp: Server, udp: UdpSocket, host: string, wanted: number): Promise<number> {
  for (;;) {
    tcp.listen(wanted, host)
    await once(tcp, 'listening')
    const { port } = tcp.address() as AddressInfo
    try {
      udp.bind(port, host)
      await once(udp, 'listening')
      return port
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      await new Promise((resolve) => tcp.close(resolve))
    }
  }
}

/**
 * A server that compares names octet by octet, against RFC 4343 (pebble-challtestsrv does): nothing is known of a name that
 * is asked for with an upper-case letter in it.
 */
export const comparingOctets =
  (script: Script): Script =>
  (asked) =>
    asked.query.questions![0]!.name === asked.name ? script(asked) : {}
