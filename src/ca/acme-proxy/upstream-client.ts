/**
 * An ACME client (RFC 8555): directory, nonces, and the requests that the account's key signs. It knows no order and keeps
 * nothing but nonces and the directory.
 */

import { createHmac, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { encodeBase64url, type JsonObject, parseJsonObject } from '../../shared/lib/encoding.ts'
import { type AccountKey, CERTIFICATE_KEYS, parseAccountKey } from '../../shared/protocol/jwk.ts'
import { JWS_ALGORITHMS, type JwsAlgorithm } from '../../shared/protocol/jws.ts'
import { type HttpAnswer, type HttpClient, retryAfterMs, Unreachable } from '../http-client.ts'
import { UpstreamNonsense, UpstreamProblem, upstreamProblem } from './upstream-problem.ts'

interface Directory {
  newNonce: string
  newAccount: string
  newOrder: string
  revokeCert: string
  /** RFC 9773; undefined when the upstream has none. */
  renewalInfo: string | undefined
  /** Names of `meta.profiles` (draft-ietf-acme-profiles). */
  profiles: readonly string[]
}

export interface Answer {
  /** Undefined when the body is no JSON object, such as a certificate chain. */
  json: JsonObject | undefined
  body: Buffer
  /** Absolute. */
  location: string | undefined
  /** Targets of `Link` with `rel="alternate"`, absolute. */
  alternates: readonly string[]
  retryAfterMs: number | undefined
}

interface Signer {
  key: UpstreamKey
  /** The account's URL; undefined signs with the key itself. */
  kid?: string | undefined
}

interface AcmeClientOptions {
  directoryUrl: string
  http: HttpClient
  requestTimeoutMs: number
  /** Tries with a fresh nonce after the first. */
  nonceRetries: number
  now?: () => number
}

export interface AcmeClient {
  /** @throws Unreachable, UpstreamProblem, UpstreamNonsense */
  directory(signal?: AbortSignal): Promise<Directory>
  /**
   * @param payload undefined for a POST-as-GET
   * @throws Unreachable, UpstreamProblem, UpstreamNonsense
   */
  post(url: string, signer: Signer, payload: object | undefined, signal?: AbortSignal): Promise<Answer>
  /** @throws Unreachable, UpstreamProblem */
  get(url: string, signal?: AbortSignal): Promise<Answer>
}

/** The requests of one signer, which one signal ends. Errors as of the client. */
export interface UpstreamSession extends Signer {
  directory(): Promise<Directory>
  /** @param payload undefined for a POST-as-GET */
  post(url: string, payload?: object): Promise<Answer>
}

export function sessionOf(client: AcmeClient, { key, kid }: Signer, signal?: AbortSignal): UpstreamSession {
  return {
    key,
    kid,
    directory: () => client.directory(signal),
    post: (url, payload) => client.post(url, { key, kid }, payload, signal),
  }
}

/** A chain of ten certificates with RSA keys of 8,192 bits has 60 KB. */
const MAX_BODY_BYTES = 262_144
/** A directory changes when the upstream's operator changes something. */
const DIRECTORY_LIFETIME_MS = 3_600_000
const ENDPOINTS = ['newNonce', 'newAccount', 'newOrder', 'revokeCert'] as const
const MAX_LINKS = 10

export function createAcmeClient(options: AcmeClientOptions): AcmeClient {
  const { directoryUrl, http, requestTimeoutMs, nonceRetries, now = Date.now } = options
  const nonces = createNoncePool()
  let known: { directory: Directory; until: number } | undefined

  async function send(method: 'GET' | 'HEAD' | 'POST', url: string, body?: string, signal?: AbortSignal) {
    requireUsableUrl(url, directoryUrl)
    const headers = body === undefined ? {} : { 'Content-Type': 'application/jose+json' }
    const limits = { maxBytes: MAX_BODY_BYTES, timeoutMs: requestTimeoutMs, signal }
    const answer = await http.send({ method, url, headers, ...(body !== undefined && { body }), ...limits })
    nonces.put(single(answer.headers['replay-nonce']))
    return answer
  }

  /** @throws UpstreamProblem */
  function checked(answer: HttpAnswer, url: string): Answer {
    const { status, headers, body } = answer
    const waitMs = retryAfterMs(headers['retry-after'], now())
    if (status >= 300 && status < 400) throw new UpstreamProblem(status, 'redirects are not followed')
    if (status < 200 || status >= 300) throw upstreamProblem(status, body, waitMs)
    const json = parseJsonObject(body)
    return {
      json: typeof json === 'string' ? undefined : json,
      body,
      location: headers.location === undefined ? undefined : absolute(headers.location, url),
      alternates: alternateLinks(headers.link, url),
      retryAfterMs: waitMs,
    }
  }

  async function directory(signal?: AbortSignal): Promise<Directory> {
    if (known && known.until > now()) return known.directory
    const { json } = checked(await send('GET', directoryUrl, undefined, signal), directoryUrl)
    if (!json) throw new UpstreamNonsense('the directory is no JSON object')
    known = { directory: readDirectory(json, directoryUrl), until: now() + DIRECTORY_LIFETIME_MS }
    return known.directory
  }

  async function freshNonce(signal?: AbortSignal): Promise<string> {
    const { newNonce } = await directory(signal)
    const { status } = await send('HEAD', newNonce, undefined, signal)
    const nonce = nonces.take()
    if (nonce === undefined) throw new UpstreamNonsense(`newNonce gave none (${status})`)
    return nonce
  }

  return {
    directory,

    async post(url, { key, kid }, payload, signal) {
      for (let tries = 0; ; tries++) {
        const nonce = nonces.take() ?? (await freshNonce(signal))
        const body = signedRequest(key, { url, nonce, kid }, payload)
        try {
          return checked(await send('POST', url, body, signal), url)
        } catch (error) {
          if (!(error instanceof UpstreamProblem) || !error.isNonce || tries >= nonceRetries) throw error
        }
      }
    },

    async get(url, signal) {
      return checked(await send('GET', url, undefined, signal), url)
    },
  }
}

function readDirectory(json: JsonObject, base: string): Directory {
  const [newNonce, newAccount, newOrder, revokeCert] = ENDPOINTS.map((name) => {
    const url = json[name]
    if (typeof url !== 'string') throw new UpstreamNonsense(`the directory has no ${name}`)
    return absolute(url, base)
  }) as [string, string, string, string]
  const { profiles } = (json['meta'] ?? {}) as { profiles?: unknown }
  const { renewalInfo } = json
  return {
    newNonce,
    newAccount,
    newOrder,
    revokeCert,
    renewalInfo: typeof renewalInfo === 'string' ? absolute(renewalInfo, base).replace(/\/$/, '') : undefined,
    profiles: typeof profiles === 'object' && profiles !== null ? Object.keys(profiles) : [],
  }
}

/**
 * A directory over TLS names no URL without it: everything below it was authenticated so.
 * @throws Unreachable
 */
function requireUsableUrl(url: string, directoryUrl: string): void {
  const { protocol, username } = new URL(url)
  if (protocol !== 'https:' && protocol !== new URL(directoryUrl).protocol)
    throw new UpstreamNonsense(`it names a URL of the scheme ${protocol}`)
  if (username !== '') throw new UpstreamNonsense('it names a URL with a password')
}

/** @throws UpstreamNonsense */
export function absolute(url: string, base: string): string {
  try {
    return new URL(url, base).href
  } catch {
    throw new UpstreamNonsense('it names something that is no URL')
  }
}

/** RFC 8288 §3, as far as ACME servers write it. */
function alternateLinks(header: string | string[] | undefined, base: string): string[] {
  const found = [...String(header ?? '').matchAll(/<([^<>]*)>\s*;([^<]*)/g)]
  const wanted = found.filter(([, , parameters = '']) => /\brel\s*=\s*"?alternate\b/i.test(parameters))
  return wanted.slice(0, MAX_LINKS).map(([, target = '']) => absolute(target, base))
}

const single = (header: string | string[] | undefined) => (Array.isArray(header) ? header[0] : header)

/** Whether the request may be repeated as it is. */
export function isPassing(error: unknown): boolean {
  return (
    error instanceof Unreachable ||
    error instanceof UpstreamNonsense ||
    (error instanceof UpstreamProblem && error.isPassing)
  )
}

/** So many requests run at the same time; an older nonce may have expired. */
const MAX_NONCES = 64

interface NoncePool {
  take(): string | undefined
  put(nonce: string | undefined): void
}

export function createNoncePool(): NoncePool {
  const nonces: string[] = []
  return {
    take: () => nonces.pop(),
    put(nonce) {
      if (nonce === undefined || nonce === '' || !/^[\w-]{1,512}$/.test(nonce)) return
      if (nonces.push(nonce) > MAX_NONCES) nonces.shift()
    },
  }
}

export interface UpstreamKey extends Pick<AccountKey, 'jwk' | 'thumbprint'> {
  alg: JwsAlgorithm
  privateKey: KeyObject
}

/** @throws Problem badPublicKey for a kind of key that no ACME server takes */
export function upstreamKey(privateKey: KeyObject): UpstreamKey {
  const publicJwk = createPublicKey(privateKey).export({ format: 'jwk' }) as JsonObject
  const { jwk, thumbprint, algorithms } = parseAccountKey(publicJwk, CERTIFICATE_KEYS)
  return { jwk, thumbprint, alg: algorithms[0] as JwsAlgorithm, privateKey }
}

/** Members of the protected header beside `alg`; `jwk` is left out when `kid` is there. */
interface SignedHeader {
  url: string
  nonce: string
  kid?: string | undefined
}

/** @param payload undefined for a POST-as-GET (RFC 8555 §6.3) */
function signedRequest(key: UpstreamKey, header: SignedHeader, payload: object | undefined): string {
  const { url, nonce, kid } = header
  const who = kid === undefined ? { jwk: JSON.parse(key.jwk) } : { kid }
  const signingInput = inputOf({ alg: key.alg, nonce, url, ...who }, payload)
  return flattened(signingInput, signatureOf(key, signingInput))
}

export interface ExternalCredential {
  kid: string
  hmacKey: Buffer
}

/** RFC 8555 §7.3.4. */
export function externalBinding({ kid, hmacKey }: ExternalCredential, key: UpstreamKey, url: string): object {
  const signingInput = inputOf({ alg: 'HS256', kid, url }, JSON.parse(key.jwk))
  return JSON.parse(flattened(signingInput, createHmac('sha256', hmacKey).update(signingInput).digest()))
}

const encoded = (value: object) => encodeBase64url(Buffer.from(JSON.stringify(value)))

function inputOf(header: object, payload: object | undefined): string {
  return `${encoded(header)}.${payload === undefined ? '' : encoded(payload)}`
}

function flattened(signingInput: string, signature: Buffer): string {
  const [header, payload] = signingInput.split('.')
  return JSON.stringify({ protected: header, payload, signature: encodeBase64url(signature) })
}

/** RFC 7518 §3.4: an ECDSA signature is R and S, not DER. */
function signatureOf({ alg, privateKey }: UpstreamKey, signingInput: string): Buffer {
  const { hash } = JWS_ALGORITHMS[alg]
  return sign(hash, Buffer.from(signingInput), { key: privateKey, dsaEncoding: 'ieee-p1363' })
}
