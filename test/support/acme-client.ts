/**
 * An ACME client for tests (RFC 8555): raw where a test wants to send what no client would, short where it only needs a
 * certificate on the way to its subject.
 */

import { createHash, generateKeyPairSync, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { Agent, createServer, type IncomingHttpHeaders, request } from 'node:http'
import { isIP } from 'node:net'
import { plainCsr } from './csr.ts'
import { publicJwk } from './jwk.ts'
import { P256_KEY, type TestKey } from './keys.ts'
import { WAIT_MS } from './patience.ts'

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  /** Link targets by relation. */
  links: Record<string, string[]>
  body: Buffer
  text: string
  /** The body as JSON; members are for the test to judge. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  json: any
}

export interface RawRequest {
  method?: string
  url: string
  headers?: Record<string, string>
  body?: string | Buffer
}

export type JsonWebKey = Record<string, unknown>

/** An account key with the algorithm it signs by. */
export interface AccountKeyPair {
  alg: 'ES256' | 'ES384' | 'ES512' | 'RS256' | 'EdDSA'
  privateKey: KeyObject
  jwk: JsonWebKey
  thumbprint: string
}

/** The parts of a request; everything that is not named is as it should be. */
export interface RequestParts {
  /** An object is sent as JSON, a string or bytes as they are; undefined is the empty payload of a POST-as-GET. */
  payload?: object | string | Buffer | undefined
  /** Laid over alg, nonce, url and kid or jwk; a member that is undefined is left out. */
  header?: Record<string, unknown>
  /** Text of the protected header, in place of the JSON of the members. */
  headerText?: string | Buffer
  /** Signs, in place of the account's key. */
  key?: AccountKeyPair
  /** `jwk` in place of kid. */
  withJwk?: boolean
  signature?: (signature: Buffer) => Buffer
}

export interface Jws {
  protected: string
  payload: string
  signature: string
}

export interface AcmeClient {
  readonly key: AccountKeyPair
  /** Account URL, once there is one. */
  kid: string
  directory: Record<string, string>
  nonce(): Promise<string>
  /** A correct request but for what `parts` says otherwise; `nonce` is fetched unless the header names one. */
  jws(url: string, parts?: RequestParts): Promise<Jws>
  post(url: string, payload?: RequestParts['payload'], parts?: RequestParts): Promise<Answer>
  newAccount(payload?: object): Promise<Answer>
  newOrder(names: readonly string[], more?: object): Promise<Answer>
  /** Answers the http-01 challenge of each pending authorization of an order, and waits until none is pending. */
  authorize(order: Answer, responder: Responder): Promise<void>
  /** Orders, authorizes, finalizes and downloads. */
  obtain(names: readonly string[], responder: Responder, more?: ObtainOptions): Promise<Obtained>
  /** POST-as-GET until the object's status is none of the waiting ones. */
  settled(url: string): Promise<Answer>
}

export interface ObtainOptions {
  order?: object
  key?: TestKey
  subject?: string
  /** In the subjectAltName, in place of the order's. */
  csrNames?: readonly string[]
}

export interface Obtained {
  order: Answer
  orderUrl: string
  certificateUrl: string
  chain: string
  /** DER of the leaf. */
  der: Buffer
}

/**
 * One agent for the file's requests; `closeConnections` lets the service end at once. It leaves a connection that nobody has used
 * for a while before the service does (8 to 12 s): a request that crosses with that end would be lost.
 */
const agent = new Agent({ keepAlive: true, maxSockets: 16, timeout: 5_000 })

export function closeConnections(): void {
  agent.destroy()
}

/** How requests reach the service: `send`, or `send` by way of a proxy. */
export type Transport = (request: RawRequest) => Promise<Answer>

/** Any method, headers and bytes; nothing is added but Host and Content-Length. */
export function send({ method = 'POST', url, headers = {}, body }: RawRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
    const outgoing = request(url, { method, agent, headers: { ...length, ...headers } }, (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () => resolve(answerOf(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks))))
      incoming.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

export function answerOf(status: number, headers: IncomingHttpHeaders, body: Buffer): Answer {
  const text = body.toString('utf8')
  const isJson = /json/.test(headers['content-type'] ?? '')
  return { status, headers, links: linksOf(headers.link), body, text, json: isJson && text ? JSON.parse(text) : {} }
}

function linksOf(header: string | string[] | undefined): Record<string, string[]> {
  const links: Record<string, string[]> = {}
  for (const [, target, relation] of String(header ?? '').matchAll(/<([^>]*)>;\s*rel="([^"]*)"/g)) {
    links[relation as string] ??= []
    links[relation as string]?.push(target as string)
  }
  return links
}

const CURVES = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' } as const

export function newAccountKey(alg: AccountKeyPair['alg'] = 'ES256', rsaBits = 2048): AccountKeyPair {
  const { privateKey, publicKey } =
    alg === 'RS256'
      ? generateKeyPairSync('rsa', { modulusLength: rsaBits })
      : alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('ec', { namedCurve: CURVES[alg] })
  return accountKeyOf(alg, privateKey, publicKey)
}

export function accountKeyOf(alg: AccountKeyPair['alg'], privateKey: KeyObject, publicKey: KeyObject): AccountKeyPair {
  const jwk = publicJwk(publicKey) as JsonWebKey
  return { alg, privateKey, jwk, thumbprint: thumbprintOf(jwk) }
}

/** RFC 7638, written a second time on purpose. */
export function thumbprintOf(jwk: JsonWebKey): string {
  const { crv, e, kty, n, x, y } = jwk as Record<string, string>
  const required = kty === 'RSA' ? { e, kty, n } : kty === 'EC' ? { crv, kty, x, y } : { crv, kty, x }
  return createHash('sha256').update(JSON.stringify(required)).digest('base64url')
}

export function base64url(value: string | Buffer): string {
  return Buffer.from(value as string).toString('base64url')
}

const HASHES = { ES256: 'sha256', ES384: 'sha384', ES512: 'sha512', RS256: 'sha256', EdDSA: null } as const

export function signBytes({ alg, privateKey }: AccountKeyPair, data: string): Buffer {
  const key = alg.startsWith('ES') ? ({ key: privateKey, dsaEncoding: 'ieee-p1363' } as const) : privateKey
  return sign(HASHES[alg], Buffer.from(data), key)
}

function payloadText(payload: RequestParts['payload']): string {
  if (payload === undefined) return ''
  if (typeof payload === 'string' || Buffer.isBuffer(payload)) return base64url(payload)
  return base64url(JSON.stringify(payload))
}

/** A flattened JWS over any header and payload. */
export function signedJws(key: AccountKeyPair, header: object | string | Buffer, parts: RequestParts = {}): Jws {
  const text = typeof header === 'string' || Buffer.isBuffer(header) ? header : JSON.stringify(header)
  const encoded = { protected: base64url(text), payload: payloadText(parts.payload) }
  const signature = signBytes(key, `${encoded.protected}.${encoded.payload}`)
  return { ...encoded, signature: base64url(parts.signature?.(signature) ?? signature) }
}

export const JOSE = { 'Content-Type': 'application/jose+json' }

/** Polls at most this often; validations on loopback take some tens of milliseconds. */
const POLL_MS = 50

export async function createAcmeClient(
  directoryUrl: string,
  key: AccountKeyPair = newAccountKey(),
  transport: Transport = send,
): Promise<AcmeClient> {
  const answered = await transport({ method: 'GET', url: directoryUrl })
  if (answered.status !== 200) throw new Error(`no directory: ${answered.status} ${answered.text}`)
  const directory = answered.json as Record<string, string>

  const client: AcmeClient = {
    key,
    kid: '',
    directory,
    async nonce() {
      const answer = await transport({ method: 'HEAD', url: directory['newNonce'] as string })
      return String(answer.headers['replay-nonce'])
    },

    async jws(url, parts = {}) {
      const signer = parts.key ?? key
      const identity = parts.withJwk || client.kid === '' ? { jwk: signer.jwk } : { kid: client.kid }
      const nonce = parts.header && 'nonce' in parts.header ? undefined : await client.nonce()
      const header = { alg: signer.alg, nonce, url, ...identity, ...parts.header }
      return signedJws(signer, parts.headerText ?? header, parts)
    },

    async post(url, payload, parts = {}) {
      const jws = await client.jws(url, { payload, ...parts })
      return transport({ url, headers: JOSE, body: JSON.stringify(jws) })
    },

    async newAccount(payload = {}) {
      const answer = await client.post(directory['newAccount'] as string, payload, { withJwk: true })
      if (answer.status < 300) client.kid = String(answer.headers.location)
      return answer
    },

    newOrder: (names, more = {}) =>
      client.post(directory['newOrder'] as string, {
        identifiers: names.map((value) => ({ type: /^[0-9.]+$|:/.test(value) ? 'ip' : 'dns', value })),
        ...more,
      }),

    async authorize(order, responder) {
      for (const url of order.json.authorizations) {
        const authorization = await client.post(url)
        if (authorization.json.status !== 'pending') continue
        const challenge = authorization.json.challenges.find(({ type }: { type: string }) => type === 'http-01')
        responder.answer(challenge.token, `${challenge.token}.${client.key.thumbprint}`)
        await client.post(challenge.url, {})
      }
      for (const url of order.json.authorizations) await client.settled(url)
    },

    async obtain(
      names,
      responder,
      { order: more = {}, key: subjectKey = P256_KEY, subject = '', csrNames = names } = {},
    ) {
      const created = await client.newOrder(names, more)
      await client.authorize(created, responder)
      const finalized = await client.post(created.json.finalize, { csr: await csrFor(csrNames, subjectKey, subject) })
      const order = finalized.json.status === 'processing' ? await client.settled(locationOf(created)) : finalized
      if (order.json.status !== 'valid') throw new Error(`no certificate: ${order.text}`)
      const certificateUrl = order.json.certificate as string
      const chain = (await client.post(certificateUrl)).text
      return { order, orderUrl: locationOf(created), certificateUrl, chain, der: pemToDer(chain)[0] as Buffer }
    },

    async settled(url) {
      const deadline = Date.now() + WAIT_MS
      for (;;) {
        const answer = await client.post(url)
        if (!['pending', 'processing'].includes(answer.json.status)) return answer
        if (Date.now() > deadline) throw new Error(`${url} is still ${answer.text}`)
        await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      }
    },
  }
  return client
}

/** A client with a fresh key and its account. */
export async function registeredClient(
  directoryUrl: string,
  key?: AccountKeyPair,
  transport?: Transport,
): Promise<AcmeClient> {
  const client = await createAcmeClient(directoryUrl, key, transport)
  const answer = await client.newAccount({ termsOfServiceAgreed: true })
  if (answer.status !== 201) throw new Error(`no account: ${answer.text}`)
  return client
}

export function locationOf(answer: Answer): string {
  return String(answer.headers.location)
}

/** The id of an object by its URL. */
export const idOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1)

/** The serial number of a certificate, as logs and the database have it. */
export const serialOf = (certificate: Buffer | string): string =>
  new X509Certificate(certificate).serialNumber.toLowerCase()

export const revoke = (by: AcmeClient, der: Buffer, reason?: number): Promise<Answer> =>
  by.post(by.directory['revokeCert'] as string, { certificate: base64url(der), reason })

/** RFC 8555 §7.3.5. The client keeps signing with the key that it has; `withKey` is the account with the new one. */
export function changeKey(client: AcmeClient, key: AccountKeyPair, parts: RequestParts = {}): Promise<Answer> {
  const url = client.directory['keyChange'] as string
  const payload = { account: client.kid, oldKey: (parts.key ?? client.key).jwk }
  return client.post(url, signedJws(key, { alg: key.alg, url, jwk: key.jwk }, { payload }), parts)
}

/** The same account, signing with another key. */
export async function withKey({ kid }: AcmeClient, key: AccountKeyPair): Promise<AcmeClient> {
  const other = await createAcmeClient(`${new URL(kid).origin}/directory`, key)
  other.kid = kid
  return other
}

export const problemOf = ({ status, json }: Answer): string =>
  `${status} ${String(json.type).replace('urn:ietf:params:acme:error:', '')}`

/** A CSR in the form of the `csr` member. */
export async function csrFor(names: readonly string[], key: TestKey = P256_KEY, subject = ''): Promise<string> {
  if (subject === '') return base64url(plainCsr(key, names))
  const { aCsr } = await import('../unit/shared/pki/support.ts')
  const toSan = (value: string) => ({ type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const), value })
  return base64url(await aCsr(key, { subject, names: names.map(toSan) }))
}

export function pemToDer(chain: string): Buffer[] {
  return [...chain.matchAll(/-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----/g)].map(([, base64]) =>
    Buffer.from(base64 as string, 'base64'),
  )
}

export interface Responder {
  answer(token: string, body: string, status?: number): void
  /** Requests seen, by token. */
  seen: Map<string, number>
  close(): Promise<void>
}

/** The web server that http-01 asks: unknown tokens are 404. */
export async function startResponder(port: number, address = '127.0.0.1'): Promise<Responder> {
  const answers = new Map<string, { body: string; status: number }>()
  const seen = new Map<string, number>()
  const server = createServer((incoming, outgoing) => {
    const token = /^\/\.well-known\/acme-challenge\/([A-Za-z0-9_-]+)$/.exec(incoming.url ?? '')?.[1] ?? ''
    seen.set(token, (seen.get(token) ?? 0) + 1)
    const { body, status } = answers.get(token) ?? { body: 'no such token', status: 404 }
    outgoing.writeHead(status, { 'Content-Type': 'application/octet-stream', Connection: 'close' }).end(body)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, resolve)
  })
  return {
    answer: (token, body, status = 200) => void answers.set(token, { body, status }),
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
