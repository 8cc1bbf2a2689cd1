/**
 * The name server of a run (RFC 1035), over UDP: every name has the responders' address, and `Proofs` has the TXT
 * records. Other types, such as CAA, do not exist; no answer comes near 512 bytes, so it needs no TCP.
 */

import { createSocket } from 'node:dgram'
import { isIPv6 } from 'node:net'
import dnsPacket from 'dns-packet'
import type { Proofs, Responder } from './listen.ts'

/** Records are good for one look. */
const TTL_SECONDS = 1

/** @param address of all names, IPv4 or IPv6. @throws Error when the port cannot be listened on */
export function startDnsResponder(host: string, port: number, address: string, proofs: Proofs): Promise<Responder> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
  socket.on('message', (query, from) => {
    const response = answerQuery(query, address, proofs)
    if (response) socket.send(response, from.port, from.address)
  })
  return new Promise((resolve, reject) => {
    socket.once('error', (error) => reject(new Error(`DNS responder on ${host}:${port}: ${error.message}`)))
    socket.bind(port, host, () =>
      resolve({ port: socket.address().port, close: () => new Promise((closed) => socket.close(() => closed())) }),
    )
  })
}

/** @returns undefined for bytes that are no question: they get no answer */
export function answerQuery(query: Buffer, address: string, proofs: Proofs): Buffer | undefined {
  const decoded = decode(query)
  const question = decoded?.questions?.[0]
  if (decoded?.type !== 'query' || !question) return undefined
  const answers = recordsFor(question, address, proofs)
  return dnsPacket.encode({
    type: 'response',
    id: decoded.id ?? 0,
    flags: dnsPacket.AUTHORITATIVE_ANSWER | ((decoded.flags ?? 0) & dnsPacket.RECURSION_DESIRED),
    // As it was asked, with its capitals: resolvers compare.
    questions: [question],
    answers,
    // "No such data" is definite only with this (RFC 2308 §2.2).
    authorities: answers.length > 0 ? [] : [startOfAuthority(question.name)],
    additionals: decoded.additionals?.some(({ type }) => type === 'OPT') ? [OPT] : [],
  })
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
    const text = proofs.get(name.toLowerCase())
    // A string of a TXT record has at most 255 octets (RFC 1035 §3.3).
    return text === undefined ? [] : [{ type, name, ttl: TTL_SECONDS, data: text.match(/.{1,255}/gs) ?? [''] }]
  }
  if (type === (isIPv6(address) ? 'AAAA' : 'A')) return [{ type, name, ttl: TTL_SECONDS, data: address }]
  return []
}

function startOfAuthority(name: string): dnsPacket.Answer {
  const zone = name.split('.').at(-1) ?? ''
  const times = { serial: 1, refresh: 3600, retry: 600, expire: 86_400, minimum: TTL_SECONDS }
  return { type: 'SOA', name: zone, ttl: TTL_SECONDS, data: { mname: `ns.${zone}`, rname: `bench.${zone}`, ...times } }
}

function decode(bytes: Buffer): dnsPacket.DecodedPacket | undefined {
  try {
    return dnsPacket.decode(bytes)
  } catch {
    // Not DNS.
    return undefined
  }
}
