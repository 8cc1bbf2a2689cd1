/** The responders to challenges, one for each type; all run in the conducting process, whose CPU the report shows apart. */

import { generateKeyPairSync, sign } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { createServer, isIPv6, type Server, type Socket } from 'node:net'
import { createSecureContext, createServer as createTlsServer } from 'node:tls'
import dnsPacket from 'dns-packet'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { contextConstructedTag } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeExtension, writeSubjectAltName } from '../../src/shared/pki/extensions.ts'
import { encodeCommonName } from '../../src/shared/pki/name.ts'
import { EXTENSION } from '../../src/shared/pki/oids.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { writeUpToExtensions } from '../../src/shared/pki/tbs-certificate.ts'
import { accountIndexOf, thumbprintName } from '../scenario/scenario.ts'

/** Port 0 starts no responder. */
export interface ResponderPlaces {
  host: string
  http01Port: number
  dnsPort: number
  tlsAlpn01Port: number
}

/** Whether the server has to be told of a name server. */
export function asksDns(challengeType: string): boolean {
  return /^dns-(account-|persist-)?01$/.test(challengeType)
}

/** @returns undefined when the server validates without asking us. @throws Error when a port cannot be listened on */
export async function startResponder(
  challengeType: string,
  { host, http01Port, dnsPort, tlsAlpn01Port }: ResponderPlaces,
  proofs: Proofs,
): Promise<Responder | undefined> {
  if (challengeType === 'http-01' && http01Port > 0) return startHttp01Responder(host, http01Port, proofs)
  if (challengeType === 'tls-alpn-01' && tlsAlpn01Port > 0) return startTlsAlpn01Responder(host, tlsAlpn01Port, proofs)
  if (asksDns(challengeType) && dnsPort > 0) return startDnsResponder(host, dnsPort, host, proofs)
  return undefined
}

interface Responder {
  port: number
  close(): Promise<void>
}

/** Proofs for validators, by the name they look under; generators put them in before they trigger a challenge. */
export type Proofs = Map<string, string>

/**
 * Connections of validators do not outlive the server.
 * @param what for the message. @throws Error when the port cannot be listened on
 */
async function listen(server: Server, what: string, host: string, port: number): Promise<Responder> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // A validator that hangs up early is its own business; the authorization will tell.
    socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`${what} responder on ${host}:${port}: ${error.message}`)))
    server.listen(port, host, () => resolve())
  })
  return {
    port: (server.address() as { port: number }).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

const REQUEST = /^GET \/\.well-known\/acme-challenge\/([\w-]+) HTTP\/1\.[01]\r\n/
const HOST = /\r\nhost: *([^\r:]+)/i
const MAX_REQUEST_BYTES = 8192

/**
 * Answers http-01 (RFC 8555 §8.3) without tokens: the Host header names the account, whose thumbprint completes the
 * token of the path. Generator processes tell it once about each account, and nothing while the clock runs.
 *
 * @throws Error when the port is taken
 */
function startHttp01Responder(host: string, port: number, proofs: Proofs): Promise<Responder> {
  const server = createServer((socket) => {
    let request = ''
    socket.on('data', (bytes) => {
      request += bytes.toString('latin1')
      if (request.length > MAX_REQUEST_BYTES) socket.destroy()
      if (request.includes('\r\n\r\n')) socket.end(answer(request, proofs))
    })
  })
  return listen(server, 'http-01', host, port)
}

function answer(request: string, proofs: Proofs): string {
  const token = REQUEST.exec(request)?.[1]
  const index = accountIndexOf(HOST.exec(request)?.[1] ?? '')
  const thumbprint = proofs.get(thumbprintName(index))
  if (!token || !thumbprint) return 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
  const body = `${token}.${thumbprint}`
  const headers = `Content-Type: application/octet-stream\r\nContent-Length: ${body.length}\r\nConnection: close`
  return `HTTP/1.1 200 OK\r\n${headers}\r\n\r\n${body}`
}

const ACME_TLS_1 = 'acme-tls/1'
const NAME = encodeCommonName('bench')
/** Validators ignore it (RFC 8737 §3). */
const VALIDITY = { notBefore: new Date('2025-01-01T00:00:00Z'), notAfter: new Date('2049-12-31T23:59:59Z') }

/** Answers tls-alpn-01 (RFC 8737 §3) with a certificate made for each handshake. @throws Error as `listen` does */
function startTlsAlpn01Responder(host: string, port: number, proofs: Proofs): Promise<Responder> {
  const { key, certificateFor } = certificateMaker()
  const server = createTlsServer({
    ALPNProtocols: [ACME_TLS_1],
    SNICallback(name, done) {
      const digest = proofs.get(name.toLowerCase())
      if (digest === undefined) return done(new Error(`nothing to show for ${name}`))
      done(null, createSecureContext({ key, cert: certificateFor(name.toLowerCase(), digest) }))
    },
  })
  server.on('secureConnection', (socket) => socket.on('error', () => socket.destroy()))
  // A handshake that fails shows at the authorization.
  server.on('tlsClientError', (_error, socket) => socket.destroy())
  return listen(server, 'tls-alpn-01', host, port)
}

/** `digest` is the base64url of the SHA-256 of the key authorization; certificates are PEM and self-signed. */
export function certificateMaker() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const spki = publicKey.export({ format: 'der', type: 'spki' })
  const signatureAlgorithm = 'SHA256withECDSA'
  const fields = { ...VALIDITY, spki, signatureAlgorithm, serialNumber: Buffer.of(1), issuerNameDer: NAME } as const
  return {
    key: privateKey.export({ format: 'pem', type: 'pkcs8' }),
    certificateFor(name: string, digest: string): string {
      const tbs = encodeDer((writer) =>
        writer.sequence(() => {
          writeUpToExtensions(writer, fields, NAME)
          writer.constructed(contextConstructedTag(3), () =>
            writer.sequence(() => {
              writeSubjectAltName(writer, { dnsNames: [name], ipAddresses: [] }, false)
              const octets = Buffer.from(digest, 'base64url')
              writeExtension(writer, EXTENSION.acmeIdentifier, true, () => writer.octetString(octets))
            }),
          )
        }),
      )
      return encodePem('CERTIFICATE', assembleCertificate(tbs, signatureAlgorithm, sign('sha256', tbs, privateKey)))
    },
  }
}

/** Records are good for one look. */
const TTL_SECONDS = 1

/**
 * The name server of a run (RFC 1035), over UDP: every name has the responders' address, and `Proofs` has the TXT
 * records. Other types, such as CAA, do not exist; no answer comes near 512 bytes, so it needs no TCP.
 *
 * @param address of all names, IPv4 or IPv6. @throws Error when the port cannot be listened on
 */
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
    // The question keeps its capitals, because resolvers compare.
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
