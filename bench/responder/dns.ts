/**
 * The name server of a run (RFC 1035), over UDP and TCP: every name has the responders' address, `Proofs` has the TXT records, and
 * whatever else is asked for, such as CAA, does not exist. Authoritative for all names; what it is asked says which.
 */

import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { createServer, isIPv6, type Server, type Socket } from 'node:net'
import dnsPacket from 'dns-packet'
import type { Proofs } from './proofs.ts'

export interface DnsResponder {
  port: number
  /** Questions answered. */
  readonly answered: number
  close(): Promise<void>
}

/** Records are good for one look. */
const TTL_SECONDS = 1
/** A resolver that is given more than it announced must ask again over TCP; every resolver takes this much. */
const PLAIN_UDP_BYTES = 512
const HEADER_BYTES = 12

/** @param address of all names, IPv4 or IPv6 @throws Error when the port cannot be listened on */
export async function startDnsResponder(
  host: string,
  port: number,
  address: string,
  proofs: Proofs,
): Promise<DnsResponder> {
  let answered = 0
  const answer = (query: Buffer, limit: 'udp' | 'tcp'): Buffer | undefined => {
    const response = answerQuery(query, limit, address, proofs)
    if (response) answered++
    return response
  }
  const tcp = await listenTcp(host, port, (query) => answer(query, 'tcp'))
  const { port: given } = tcp.server.address() as { port: number }
  const udp = await listenUdp(host, given, (query) => answer(query, 'udp')).catch(async (error: Error) => {
    await tcp.close()
    throw error
  })
  return {
    port: given,
    get answered() {
      return answered
    },
    close: async () => {
      await Promise.all([tcp.close(), new Promise<void>((resolve) => udp.close(() => resolve()))])
    },
  }
}

/** @returns undefined for bytes that are no question: they get no answer. */
export function answerQuery(query: Buffer, over: 'udp' | 'tcp', address: string, proofs: Proofs): Buffer | undefined {
  const decoded = decode(query)
  const question = decoded?.questions?.[0]
  if (decoded?.type !== 'query' || !question) return undefined
  const edns = decoded.additionals?.find((record): record is dnsPacket.OptAnswer => record.type === 'OPT')
  const answers = recordsFor(question, address, proofs)
  const message: dnsPacket.Packet = {
    type: 'response',
    id: decoded.id ?? 0,
    flags: dnsPacket.AUTHORITATIVE_ANSWER | ((decoded.flags ?? 0) & dnsPacket.RECURSION_DESIRED),
    // As it was asked, with its capitals: resolvers compare.
    questions: [question],
    answers,
    // "No such data" is definite only with this (RFC 2308 §2.2).
    authorities: answers.length > 0 ? [] : [startOfAuthority(question.name)],
    additionals: edns ? [OPT] : [],
  }
  const bytes = dnsPacket.encode(message)
  const limit = over === 'tcp' ? Number.POSITIVE_INFINITY : (edns?.udpPayloadSize ?? PLAIN_UDP_BYTES)
  if (bytes.length <= limit) return bytes
  const flags = (message.flags ?? 0) | dnsPacket.TRUNCATED_RESPONSE
  return dnsPacket.encode({ ...message, flags, answers: [], authorities: [] })
}

const OPT: dnsPacket.OptAnswer = {
  type: 'OPT',
  name: '.',
  udpPayloadSize: 1232,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
}

function recordsFor({ name, type }: dnsPacket.Question, address: string, proofs: Proofs): dnsPacket.Answer[] {
  if (type === 'TXT') {
    const text = proofs.find(name.toLowerCase())
    return text === undefined ? [] : [{ type, name, ttl: TTL_SECONDS, data: stringsOf(text) }]
  }
  if (type === (isIPv6(address) ? 'AAAA' : 'A')) return [{ type, name, ttl: TTL_SECONDS, data: address }]
  return []
}

/** A string of a TXT record has at most 255 octets (RFC 1035 §3.3). */
function stringsOf(text: string): string[] {
  return text.match(/.{1,255}/gs) ?? ['']
}

function startOfAuthority(name: string): dnsPacket.Answer {
  const zone = name.split('.').at(-1) ?? ''
  const times = { serial: 1, refresh: 3600, retry: 600, expire: 86_400, minimum: TTL_SECONDS }
  return { type: 'SOA', name: zone, ttl: TTL_SECONDS, data: { mname: `ns.${zone}`, rname: `bench.${zone}`, ...times } }
}

function decode(bytes: Buffer): dnsPacket.DecodedPacket | undefined {
  if (bytes.length < HEADER_BYTES) return undefined
  try {
    return dnsPacket.decode(bytes)
  } catch {
    // Not DNS.
    return undefined
  }
}

function listenUdp(host: string, port: number, answer: (query: Buffer) => Buffer | undefined): Promise<UdpSocket> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
  socket.on('message', (query, from) => {
    const response = answer(query)
    if (response) socket.send(response, from.port, from.address)
  })
  return new Promise((resolve, reject) => {
    socket.once('error', (error) => reject(new Error(`DNS responder on ${host}:${port}: ${error.message}`)))
    socket.bind(port, host, () => resolve(socket))
  })
}

async function listenTcp(
  host: string,
  port: number,
  answer: (query: Buffer) => Buffer | undefined,
): Promise<{ server: Server; close(): Promise<void> }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    let bytes: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      // Each message follows its length (RFC 1035 §4.2.2).
      while (bytes.length >= 2 && bytes.length >= 2 + bytes.readUInt16BE(0)) {
        const end = 2 + bytes.readUInt16BE(0)
        const response = answer(bytes.subarray(2, end))
        bytes = bytes.subarray(end)
        if (!response) {
          socket.destroy()
          return
        }
        const length = Buffer.alloc(2)
        length.writeUInt16BE(response.length)
        socket.write(Buffer.concat([length, response]))
      }
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`DNS responder on ${host}:${port}: ${error.message}`)))
    server.listen(port, host, () => resolve())
  })
  return {
    server,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
