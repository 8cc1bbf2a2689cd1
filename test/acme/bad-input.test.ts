/**
 * Requests that must be refused (RFC 8555 §6, §7; RFC 7515): one row each with the exact problem and status.
 *
 * Every row is checked for what all refusals share: a problem document, a fresh nonce, the index link, no 5xx. And for
 * the nonce it was sent with: `kept` rows are refused before it is used up (header comment of `src/acme/gate.ts`), so
 * a correct request with the same nonce still succeeds; after `used` rows it is a badNonce.
 */

import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import {
  type AccountKeyPair,
  type AcmeClient,
  type Answer,
  base64url,
  closeConnections,
  csrFor,
  JOSE,
  locationOf,
  newAccountKey,
  type Obtained,
  type RawRequest,
  type RequestParts,
  type Responder,
  registeredClient,
  send,
  signedJws,
  startResponder,
} from '../support/acme-client.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { aCertificate, aCsr, ED25519_KEY, P256_KEY, RSA_KEY, type TestKey, x509 } from '../unit/shared/pki/support.ts'

interface World {
  service: TestService
  alice: AcmeClient
  /** Her key is RSA. */
  rita: AcmeClient
  bob: AcmeClient
  /** Deactivated. */
  carol: AcmeClient
  /** Alice's, by status. */
  orders: Record<'pending' | 'ready' | 'processing' | 'valid' | 'invalid', string>
  finalize(status: keyof World['orders']): string
  obtained: Obtained
  bobs: { order: string; authorization: string; challenge: string; certificate: string; der: Buffer }
  authorization: string
  deactivatedAuthorization: string
  challenge: string
}

interface Row {
  name: string
  status: number
  type: string
  nonce: 'kept' | 'used' | 'unread'
  send(world: World, nonce: string): Promise<RawRequest> | RawRequest
  check?(answer: Answer, world: World): void
}

type Make = Row['send']
type Url = (world: World) => string

const orderUrl: Url = ({ orders }) => orders.pending
const accountUrl: Url = ({ alice }) => alice.kid
const fixed =
  (resource: string): Url =>
  ({ alice }) =>
    alice.directory[resource] as string

/** A correct request of Alice's but for what `parts` says. */
function as(
  who: (world: World) => AcmeClient,
  url: Url,
  payload?: RequestParts['payload'] | ((world: World) => unknown),
  parts: RequestParts | ((world: World, nonce: string) => RequestParts) = {},
): Make {
  return async (world, nonce) => {
    const { header, ...rest } = typeof parts === 'function' ? parts(world, nonce) : parts
    const given = typeof payload === 'function' ? ((await payload(world)) as RequestParts['payload']) : payload
    const jws = await who(world).jws(url(world), { payload: given, header: { nonce, ...header }, ...rest })
    return { url: url(world), headers: JOSE, body: JSON.stringify(jws) }
  }
}
const aliceTo = (url: Url, payload?: Parameters<typeof as>[2], parts?: Parameters<typeof as>[3]) =>
  as(({ alice }) => alice, url, payload, parts)

/** Alice's correct POST-as-GET of an order, with its JWS or its text changed. */
function body(change: (jws: Record<string, string>) => unknown): Make {
  return async ({ alice, orders }, nonce) => {
    const jws = await alice.jws(orders.pending, { header: { nonce } })
    const changed = change({ ...jws })
    const text = typeof changed === 'string' || Buffer.isBuffer(changed) ? changed : JSON.stringify(changed)
    return { url: orders.pending, headers: JOSE, body: text }
  }
}

function header(change: Record<string, unknown>): Make {
  return aliceTo(orderUrl, undefined, { header: change })
}

function headerText(change: (text: string) => string | Buffer): Make {
  return aliceTo(orderUrl, undefined, ({ alice, orders }, nonce) => ({
    headerText: change(JSON.stringify({ alg: 'ES256', nonce, url: orders.pending, kid: alice.kid })),
  }))
}

function signature(change: (signature: Buffer) => Buffer): Make {
  return aliceTo(orderUrl, undefined, { signature: change })
}

const kept = (name: string, type: string, make: Make, status = 400): Row => ({
  name,
  type,
  status,
  nonce: 'kept',
  send: make,
})
const used = (name: string, type: string, make: Make, status = 400): Row => ({
  name,
  type,
  status,
  nonce: 'used',
  send: make,
})

/** r‖s as the SEQUENCE of two INTEGERs that X.509 uses. */
function toDer(signed: Buffer): Buffer {
  const integer = (bytes: Buffer) => {
    const positive = (bytes[0] as number) & 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes
    return Buffer.concat([Buffer.of(2, positive.length), positive])
  }
  const content = Buffer.concat([integer(signed.subarray(0, 32)), integer(signed.subarray(32))])
  return Buffer.concat([Buffer.of(0x30, content.length), content])
}

function bitTurned(bytes: Buffer, at: number): Buffer {
  const turned = Buffer.from(bytes)
  turned.writeUInt8((bytes[at] as number) ^ 1, at)
  return turned
}

/** The other last character that strict decoders must not take for the same bytes. */
function otherTail(text: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  assert.notEqual(text.length % 4, 0, 'only an incomplete last group has spare bits')
  return text.slice(0, -1) + alphabet[alphabet.indexOf(text.at(-1) as string) ^ 1]
}

const BODIES: Row[] = [
  kept('an empty body', 'malformed', async ({ orders }) => ({ url: orders.pending, headers: JOSE, body: '' })),
  kept(
    'a truncated body',
    'malformed',
    body((jws) => JSON.stringify(jws).slice(0, -20)),
  ),
  kept(
    'a body that is an array',
    'malformed',
    body((jws) => [jws]),
  ),
  kept(
    'a body that is null',
    'malformed',
    body(() => 'null'),
  ),
  kept(
    'a body that is a string',
    'malformed',
    body((jws) => JSON.stringify(JSON.stringify(jws))),
  ),
  kept(
    'a body that is no text',
    'malformed',
    body(() => randomBytes(200)),
  ),
  kept(
    'a body with a byte order mark',
    'malformed',
    body((jws) => `\ufeff${JSON.stringify(jws)}`),
  ),
  kept(
    'a body with something behind it',
    'malformed',
    body((jws) => `${JSON.stringify(jws)}}`),
  ),
  kept(
    'two JWS in one body',
    'malformed',
    body((jws) => JSON.stringify(jws) + JSON.stringify(jws)),
  ),
  kept(
    'a body nested 30,000 deep',
    'malformed',
    body(() => `{"protected":${'['.repeat(30_000)}${']'.repeat(30_000)}}`),
  ),
  {
    ...kept(
      'a body over the limit',
      'malformed',
      body((jws) => JSON.stringify(jws).padEnd(65_537)),
      413,
    ),
  },
  {
    ...kept(
      'a body far over the limit',
      'malformed',
      body((jws) => JSON.stringify(jws).padEnd(600_000)),
      413,
    ),
  },
]

function mediaType(headers: Record<string, string>): Make {
  return async ({ alice, orders }, nonce) => ({
    url: orders.pending,
    headers,
    body: JSON.stringify(await alice.jws(orders.pending, { header: { nonce } })),
  })
}

const MEDIA_TYPES: Row[] = [
  kept('no media type', 'malformed', mediaType({}), 415),
  kept('application/json (§6.2)', 'malformed', mediaType({ 'Content-Type': 'application/json' }), 415),
  kept('application/jose (§6.2)', 'malformed', mediaType({ 'Content-Type': 'application/jose' }), 415),
  kept(
    'a media type that only mentions the right one',
    'malformed',
    mediaType({ 'Content-Type': 'text/plain; x=application/jose+json' }),
    415,
  ),
  kept('a media type with a suffix', 'malformed', mediaType({ 'Content-Type': 'application/jose+json-seq' }), 415),
]

const SHAPES: Row[] = [
  kept(
    'the general JWS serialization (§6.2)',
    'malformed',
    body(({ protected: head, payload, signature: signed }) => ({
      payload,
      signatures: [{ protected: head, signature: signed }],
    })),
  ),
  kept(
    'flattened and general serialization at once',
    'malformed',
    body((jws) => ({ ...jws, signatures: [{ protected: jws['protected'], signature: jws['signature'] }] })),
  ),
  kept(
    'the compact serialization',
    'malformed',
    body((jws) => `${jws['protected']}.${jws['payload']}.${jws['signature']}`),
  ),
  kept(
    'an unprotected header (§6.2)',
    'malformed',
    body((jws) => ({ ...jws, header: { kid: 'x' } })),
  ),
  kept(
    'no protected member',
    'malformed',
    body(({ protected: _, ...jws }) => jws),
  ),
  kept(
    'no payload member (§6.3)',
    'malformed',
    body(({ payload: _, ...jws }) => jws),
  ),
  kept(
    'no signature member',
    'malformed',
    body(({ signature: _, ...jws }) => jws),
  ),
  kept(
    'a signature that is a number',
    'malformed',
    body((jws) => ({ ...jws, signature: 1 })),
  ),
  kept(
    'a payload that is null',
    'malformed',
    body((jws) => ({ ...jws, payload: null })),
  ),
  kept(
    'a payload that is an object and not its encoding',
    'malformed',
    body((jws) => ({ ...jws, payload: {} })),
  ),
  kept(
    'a duplicate payload member (RFC 7515 §4)',
    'malformed',
    body((jws) => `{"payload":"e30",${JSON.stringify(jws).slice(1)}`),
  ),
  kept(
    'a duplicate member spelled with an escape',
    'malformed',
    body((jws) => `{"p\\u0061yload":"e30",${JSON.stringify(jws).slice(1)}`),
  ),
  kept(
    'padding in protected (§6.1)',
    'malformed',
    body((jws) => ({ ...jws, protected: `${jws['protected']}==` })),
  ),
  kept(
    'padding in the signature (§6.1)',
    'malformed',
    body((jws) => ({ ...jws, signature: `${jws['signature']}==` })),
  ),
  kept(
    'padding alone as the payload',
    'malformed',
    body((jws) => ({ ...jws, payload: '=' })),
  ),
  kept(
    'a signature with a second spelling of its last byte',
    'malformed',
    body((jws) => ({ ...jws, signature: otherTail(jws['signature'] as string) })),
  ),
  kept(
    'the standard base64 alphabet',
    'malformed',
    body((jws) => ({ ...jws, signature: Buffer.alloc(64, 0xff).toString('base64').replaceAll('=', '') })),
  ),
  kept(
    'white space inside the signature',
    'malformed',
    body((jws) => ({ ...jws, signature: ` ${jws['signature']}` })),
  ),
  kept(
    'base64url of an impossible length',
    'malformed',
    body((jws) => ({ ...jws, payload: 'A' })),
  ),
  kept(
    'an empty protected header',
    'malformed',
    body((jws) => ({ ...jws, protected: '' })),
  ),
  kept(
    'a protected header that is no JSON',
    'malformed',
    headerText(() => 'alg=ES256'),
  ),
  kept(
    'a protected header that is an array',
    'malformed',
    headerText((text) => `[${text}]`),
  ),
  kept(
    'a protected header that is no UTF-8',
    'malformed',
    headerText((text) => Buffer.from(`${text.slice(0, -1)},"x":"\xff"}`, 'latin1')),
  ),
  kept(
    'a duplicate member in the protected header (RFC 7515 §4)',
    'malformed',
    headerText((text) => text.replace('{', '{"alg":"none",')),
  ),
  kept('crit (RFC 7515 §4.1.11)', 'malformed', header({ crit: ['b64'], b64: true })),
  kept('crit that names url', 'malformed', header({ crit: ['url'] })),
  kept('an empty crit', 'malformed', header({ crit: [] })),
  kept('b64 false (RFC 7797)', 'malformed', header({ b64: false })),
]

const HEADERS: Row[] = [
  kept('no alg', 'malformed', header({ alg: undefined })),
  kept('an alg that is no string', 'malformed', header({ alg: 256 })),
  kept('alg none (§6.2)', 'badSignatureAlgorithm', header({ alg: 'none' })),
  kept('a MAC as alg (§6.2)', 'badSignatureAlgorithm', header({ alg: 'HS256' })),
  kept('an alg that is not enabled', 'badSignatureAlgorithm', header({ alg: 'ES384' })),
  kept('an alg in lower case', 'badSignatureAlgorithm', header({ alg: 'es256' })),
  kept('an alg that names a member of Object', 'badSignatureAlgorithm', header({ alg: 'constructor' })),
  kept('an alg that does not fit the key', 'badSignatureAlgorithm', header({ alg: 'RS256' })),
  kept('no url (§6.4)', 'malformed', header({ url: undefined })),
  kept('a url that is no string', 'malformed', header({ url: [] })),
  kept(
    'the url of another resource (§6.4)',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: orders.ready } })),
    403,
  ),
  kept(
    'a url with a query that the request has not',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: `${orders.pending}?a=b` } })),
    403,
  ),
  kept(
    'a request with a query that the url has not',
    'unauthorized',
    async (world, nonce) => {
      const made = await aliceTo(orderUrl)(world, nonce)
      return { ...made, url: `${made.url}?a=b` }
    },
    403,
  ),
  kept(
    'a url of another scheme',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: orders.pending.replace('http:', 'https:') } })),
    403,
  ),
  kept(
    'a url of another host',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({
      header: { url: orders.pending.replace('127.0.0.1', 'localhost') },
    })),
    403,
  ),
  kept(
    'a url with a fragment',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: `${orders.pending}#a` } })),
    403,
  ),
  kept(
    'a url in another case (§6.4 compares text)',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: orders.pending.replace('http', 'HTTP') } })),
    403,
  ),
  kept(
    'a url whose port is written otherwise, as a default port is',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: orders.pending.replace(/:(?=\d)/, ':0') } })),
    403,
  ),
  kept(
    'a url with a trailing slash',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: `${orders.pending}/` } })),
    403,
  ),
  kept(
    'the path alone as url',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { url: new URL(orders.pending).pathname } })),
    403,
  ),
  kept('neither jwk nor kid (§6.2)', 'malformed', header({ kid: undefined })),
  kept(
    'both jwk and kid (§6.2)',
    'malformed',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { jwk: alice.key.jwk } })),
  ),
  kept('a kid that is no string', 'malformed', header({ kid: 7 })),
  kept('a jwk that is a string', 'malformed', header({ kid: undefined, jwk: 'key' })),
  kept('a jwk that is null', 'malformed', header({ kid: undefined, jwk: null })),
  kept('a jwk that is an array', 'malformed', header({ kid: undefined, jwk: [] })),
]

const NONCES: Row[] = [
  kept('no nonce (§6.5)', 'badNonce', header({ nonce: undefined })),
  kept('a nonce that is no string (§6.5.2)', 'malformed', header({ nonce: 1 })),
  kept('a nonce with padding (§6.5.2)', 'malformed', header({ nonce: 'AAAAAAAAAAAAAAAAAAAAAA==' })),
  kept('a nonce that no base64url is (§6.5.2)', 'malformed', header({ nonce: 'n+nce/' })),
  kept('a nonce of an impossible base64url length (§6.5.2)', 'malformed', header({ nonce: 'AAAAA' })),
  kept('an empty nonce', 'malformed', header({ nonce: '' })),
  kept(
    'a forged nonce',
    'badNonce',
    aliceTo(orderUrl, undefined, () => ({ header: { nonce: base64url(randomBytes(16)) } })),
  ),
  kept('a nonce in the form of another server', 'badNonce', header({ nonce: base64url(Buffer.alloc(32, 7)) })),
  {
    ...used('a nonce that was used before (§6.5)', 'badNonce', async (world, nonce) => {
      const made = await aliceTo(orderUrl)(world, nonce)
      assert.equal((await send(made)).status, 200)
      return made
    }),
  },
]

const SIGNERS: Row[] = [
  kept(
    'a kid of another host',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { kid: alice.kid.replace('127.0.0.1', 'localhost') } })),
  ),
  kept(
    'a kid of an account that does not exist',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { kid: alice.kid.slice(0, -36) + randomUUID() } })),
  ),
  kept(
    'a kid with a query',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { kid: `${alice.kid}?` } })),
  ),
  kept(
    'a kid with a fragment',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { kid: `${alice.kid}#key` } })),
  ),
  kept(
    'a kid in upper case',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({
      header: { kid: alice.kid.slice(0, -36) + alice.kid.slice(-36).toUpperCase() },
    })),
  ),
  kept(
    'a kid that is only the id',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ alice }) => ({ header: { kid: alice.kid.slice(-36) } })),
  ),
  kept(
    'a kid that is an order',
    'accountDoesNotExist',
    aliceTo(orderUrl, undefined, ({ orders }) => ({ header: { kid: orders.ready } })),
  ),
  kept('an empty kid, which counts as none', 'malformed', header({ kid: '' })),
  kept(
    'jwk where kid is needed (§6.2)',
    'malformed',
    aliceTo(fixed('newOrder'), { identifiers: [] }, { withJwk: true, header: { kid: undefined } }),
  ),
  kept('kid where jwk is needed (§6.2)', 'malformed', aliceTo(fixed('newAccount'), {})),
  used(
    'a deactivated account (§7.3.6)',
    'unauthorized',
    as(({ carol }) => carol, accountUrl),
    401,
  ),
  used(
    'a deactivated account that orders (§7.3.6)',
    'unauthorized',
    as(({ carol }) => carol, fixed('newOrder'), { identifiers: [{ type: 'dns', value: 'x.test' }] }),
    401,
  ),
  used(
    'the key of a deactivated account at new-account (§7.3.6)',
    'unauthorized',
    as(({ carol }) => carol, fixed('newAccount'), {}, { withJwk: true }),
    401,
  ),
]

const SIGNATURES: Row[] = [
  kept(
    'an empty signature',
    'unauthorized',
    body((jws) => ({ ...jws, signature: '' })),
    403,
  ),
  kept(
    'a signature with a bit turned',
    'unauthorized',
    signature((bytes) => bitTurned(bytes, 9)),
    403,
  ),
  kept(
    'a signature that is one byte short',
    'unauthorized',
    signature((bytes) => bytes.subarray(0, 63)),
    403,
  ),
  kept(
    'a signature that is one byte long',
    'unauthorized',
    signature((bytes) => Buffer.concat([bytes, Buffer.of(0)])),
    403,
  ),
  kept('a signature in DER (RFC 7518 §3.4)', 'unauthorized', signature(toDer), 403),
  kept(
    'a signature of zeros',
    'unauthorized',
    signature(() => Buffer.alloc(64)),
    403,
  ),
  kept(
    'the signature of another key',
    'unauthorized',
    aliceTo(orderUrl, undefined, ({ bob }) => ({ key: bob.key })),
    403,
  ),
  kept(
    'a signature over another payload',
    'unauthorized',
    body((jws) => ({ ...jws, payload: base64url('{}') })),
    403,
  ),
  kept(
    'an RSA signature cut short',
    'unauthorized',
    as(
      ({ rita }) => rita,
      ({ rita }) => rita.kid,
      undefined,
      { signature: (bytes) => bytes.subarray(0, 255) },
    ),
    403,
  ),
  kept(
    'an RSA signature of zeros',
    'unauthorized',
    as(
      ({ rita }) => rita,
      ({ rita }) => rita.kid,
      undefined,
      { signature: () => Buffer.alloc(256) },
    ),
    403,
  ),
]

const P256 = newAccountKey()
const P384 = newAccountKey('ES384')
const ED = newAccountKey('EdDSA')
const RSA = newAccountKey('RS256')

/** Registration with a jwk of any content, signed by a key that may have nothing to do with it. */
function registration(jwk: object, key: AccountKeyPair = P256): Make {
  return async ({ alice }, nonce) => {
    const url = alice.directory['newAccount'] as string
    const jws = signedJws(key, { alg: key.alg, nonce, url, jwk }, { payload: {} })
    return { url, headers: JOSE, body: JSON.stringify(jws) }
  }
}

function modulus(bits: number, even = false): string {
  const bytes = randomBytes(bits / 8)
  bytes[0] = (bytes[0] as number) | 0x80
  bytes[bytes.length - 1] = even ? (bytes.at(-1) as number) & 0xfe : (bytes.at(-1) as number) | 1
  return base64url(bytes)
}

const KEYS: Row[] = [
  kept('a private EC key', 'badPublicKey', registration(P256.privateKey.export({ format: 'jwk' }))),
  kept('a private RSA key', 'badPublicKey', registration(RSA.privateKey.export({ format: 'jwk' }), RSA)),
  kept(
    'an RSA key with one of its primes',
    'badPublicKey',
    registration({ ...RSA.jwk, p: (RSA.privateKey.export({ format: 'jwk' }) as { p: string }).p }, RSA),
  ),
  kept('a symmetric key', 'badPublicKey', registration({ kty: 'oct', k: base64url('secret') })),
  kept('a key without kty', 'badPublicKey', registration({ ...P256.jwk, kty: undefined })),
  kept('an empty key', 'badPublicKey', registration({})),
  kept(
    'a point that is not on the curve',
    'badPublicKey',
    registration({ ...P256.jwk, y: base64url(Buffer.alloc(32, 5)) }),
  ),
  kept(
    'the point at zero',
    'badPublicKey',
    registration({ ...P256.jwk, x: base64url(Buffer.alloc(32)), y: base64url(Buffer.alloc(32)) }),
  ),
  kept(
    'a coordinate longer than the curve',
    'badPublicKey',
    registration({ ...P256.jwk, x: base64url(Buffer.alloc(33, 9)) }),
  ),
  kept('a key without y', 'badPublicKey', registration({ ...P256.jwk, y: undefined })),
  kept('a coordinate that is a number', 'badPublicKey', registration({ ...P256.jwk, x: 5 })),
  kept('a coordinate with padding', 'badPublicKey', registration({ ...P256.jwk, x: `${P256.jwk['x']}=` })),
  kept('a curve that JWS has not', 'badPublicKey', registration({ ...P256.jwk, crv: 'P-224' })),
  kept('a curve that names a member of Object', 'badPublicKey', registration({ ...P256.jwk, crv: 'constructor' })),
  kept('a curve that is not enabled', 'badPublicKey', registration({ ...newAccountKey('ES512').jwk })),
  kept('a P-384 key with ES256', 'badSignatureAlgorithm', registration(P384.jwk)),
  kept('an Ed25519 key with ES256', 'badSignatureAlgorithm', registration(ED.jwk)),
  kept('an X25519 key', 'badPublicKey', registration({ ...ED.jwk, crv: 'X25519' })),
  kept('an RSA modulus that is even', 'badPublicKey', registration({ ...RSA.jwk, n: modulus(2048, true) }, RSA)),
  kept('an RSA modulus of 1024 bits', 'badPublicKey', registration(newAccountKey('RS256', 1024).jwk, RSA)),
  kept('an RSA modulus of 2040 bits', 'badPublicKey', registration({ ...RSA.jwk, n: modulus(2040) }, RSA)),
  kept('an RSA modulus of 16384 bits', 'badPublicKey', registration({ ...RSA.jwk, n: modulus(16384) }, RSA)),
  kept(
    'a small RSA modulus with zeros in front',
    'badPublicKey',
    registration({ ...RSA.jwk, n: base64url(Buffer.concat([Buffer.alloc(256), randomBytes(64)])) }, RSA),
  ),
  kept('RSA exponent 1', 'badPublicKey', registration({ ...RSA.jwk, e: 'AQ' }, RSA)),
  kept('RSA exponent 3', 'badPublicKey', registration({ ...RSA.jwk, e: 'Aw' }, RSA)),
  kept('an even RSA exponent', 'badPublicKey', registration({ ...RSA.jwk, e: 'AQAC' }, RSA)),
  kept('an RSA exponent of 5 bytes', 'badPublicKey', registration({ ...RSA.jwk, e: 'AQAAAAE' }, RSA)),
  kept('an RSA key without n', 'badPublicKey', registration({ ...RSA.jwk, n: undefined }, RSA)),
  kept('a jwk that is not the key that signed', 'unauthorized', registration(newAccountKey().jwk), 403),
]

const newOrderPayload = (payload: object | string | Buffer) => aliceTo(fixed('newOrder'), payload)

const PAYLOADS: Row[] = [
  used('a payload that is null', 'malformed', newOrderPayload('null')),
  used('a payload that is an array', 'malformed', newOrderPayload('[]')),
  used('a payload that is a string', 'malformed', newOrderPayload('"identifiers"')),
  used('a payload that is a number', 'malformed', newOrderPayload('1')),
  used('a payload that is truncated', 'malformed', newOrderPayload('{"identifiers":[')),
  used(
    'a payload that is no UTF-8',
    'malformed',
    newOrderPayload(Buffer.from('{"identifiers":[],"x":"\xe9"}', 'latin1')),
  ),
  used(
    'a payload with a duplicate member',
    'malformed',
    newOrderPayload('{"identifiers":[{"type":"dns","value":"a.test"}],"identifiers":[]}'),
  ),
  used(
    'a payload with a duplicate member further down',
    'malformed',
    newOrderPayload('{"identifiers":[{"type":"dns","value":"a.test","value":"b.test"}]}'),
  ),
  used('arrays nested 20,000 deep', 'malformed', newOrderPayload(`{"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}`)),
  used('objects nested 6,000 deep', 'malformed', newOrderPayload(`${'{"x":'.repeat(6_000)}1${'}'.repeat(6_000)}`)),
  used('no payload where one is needed', 'malformed', aliceTo(fixed('newOrder'))),
  used(
    'no payload at new-account',
    'malformed',
    as(({ bob }) => bob, fixed('newAccount'), undefined, { withJwk: true }),
  ),
  used('a payload to an order (§6.3)', 'malformed', aliceTo(orderUrl, {})),
  used(
    'a payload to a certificate (§6.3)',
    'malformed',
    aliceTo(({ obtained }) => obtained.certificateUrl, {}),
  ),
  used(
    'a payload to the orders list (§6.3)',
    'malformed',
    aliceTo(({ alice }) => `${alice.kid}/orders`, {}),
  ),
  used('identifiers left out', 'malformed', newOrderPayload({})),
  used('identifiers null', 'malformed', newOrderPayload({ identifiers: null })),
  used(
    'identifiers that are an object',
    'malformed',
    newOrderPayload({ identifiers: { type: 'dns', value: 'a.test' } }),
  ),
  used('an identifier that is a string', 'malformed', newOrderPayload({ identifiers: ['a.test'] })),
  used('an identifier that is null', 'malformed', newOrderPayload({ identifiers: [null] })),
  used('an identifier without a value', 'malformed', newOrderPayload({ identifiers: [{ type: 'dns' }] })),
  used(
    'an identifier whose value is a number',
    'malformed',
    newOrderPayload({ identifiers: [{ type: 'dns', value: 1 }] }),
  ),
  used(
    'a contact that is a string',
    'malformed',
    as(({ bob }) => bob, fixed('newAccount'), { contact: 'mailto:a@b.test' }, { withJwk: true }),
  ),
  used(
    'contacts that are numbers',
    'malformed',
    as(({ bob }) => bob, fixed('newAccount'), { contact: [1] }, { withJwk: true }),
  ),
  used(
    'termsOfServiceAgreed "yes"',
    'malformed',
    as(({ bob }) => bob, fixed('newAccount'), { termsOfServiceAgreed: 'yes' }, { withJwk: true }),
  ),
  used(
    'onlyReturnExisting 1',
    'malformed',
    as(({ bob }) => bob, fixed('newAccount'), { onlyReturnExisting: 1 }, { withJwk: true }),
  ),
]

const identifiers = (...values: (string | { type: string; value: string })[]) =>
  newOrderPayload({
    identifiers: values.map((value) => (typeof value === 'string' ? { type: 'dns', value } : value)),
  })

const IDENTIFIERS: Row[] = [
  used('no identifiers at all', 'malformed', identifiers()),
  used('101 identifiers', 'malformed', identifiers(...Array.from({ length: 101 }, (_, i) => `n${i}.test`))),
  used('an unknown identifier type', 'unsupportedIdentifier', identifiers({ type: 'email', value: 'a@b.test' })),
  used('type DNS in upper case', 'unsupportedIdentifier', identifiers({ type: 'DNS', value: 'a.test' })),
  used(
    'an IP address when they are not allowed',
    'unsupportedIdentifier',
    identifiers({ type: 'ip', value: '127.0.0.1' }),
  ),
  used('an IP address as a DNS name', 'malformed', identifiers('127.0.0.1')),
  used('a trailing dot', 'malformed', identifiers('a.test.')),
  used('an empty name', 'malformed', identifiers('')),
  used('an empty label', 'malformed', identifiers('a..test')),
  used('an underscore', 'malformed', identifiers('a_b.test')),
  used('a space', 'malformed', identifiers('a b.test')),
  used('a NUL', 'malformed', identifiers('a\0.test')),
  used('a port', 'malformed', identifiers('a.test:80')),
  used('a label that starts with a hyphen', 'malformed', identifiers('-a.test')),
  used('a label of 64 characters', 'malformed', identifiers(`${'a'.repeat(64)}.test`)),
  used('a broken A-label', 'malformed', identifiers('xn--a.test')),
  used('a reserved label', 'malformed', identifiers('ab--c.test')),
  used('a wildcard in the middle', 'malformed', identifiers('a.*.test')),
  used('a wildcard as part of a label', 'malformed', identifiers('w*.a.test')),
  used('two wildcards', 'malformed', identifiers('*.*.test')),
  used('a name of 254 characters', 'rejectedIdentifier', identifiers(`${'a.'.repeat(125)}test`)),
  used('a single label', 'rejectedIdentifier', identifiers('test')),
  used('a forbidden name', 'rejectedIdentifier', identifiers('x.forbidden.test')),
  used('a wildcard that no enabled challenge can validate', 'rejectedIdentifier', identifiers('*.a.test')),
  {
    ...used('several bad identifiers (§6.7.1)', 'compound', identifiers('a.test.', 'b.test', 'x.forbidden.test')),
    check({ json }) {
      assert.deepEqual(
        json.subproblems.map(({ type, identifier }: { type: string; identifier: object }) => ({ type, identifier })),
        [
          { type: 'urn:ietf:params:acme:error:malformed', identifier: { type: 'dns', value: 'a.test.' } },
          {
            type: 'urn:ietf:params:acme:error:rejectedIdentifier',
            identifier: { type: 'dns', value: 'x.forbidden.test' },
          },
        ],
      )
    },
  },
  {
    ...used('a wildcard right below a public suffix', 'rejectedIdentifier', identifiers('*.co.uk')),
    check: ({ json }) => assert.match(json.detail, /names below co\.uk can be registered by anyone/),
  },
  used(
    'a wildcard at new-authz (§7.4.1)',
    'rejectedIdentifier',
    aliceTo(fixed('newAuthz'), { identifier: { type: 'dns', value: '*.a.test' } }),
  ),
  used(
    'a bad name at new-authz (§7.4.1)',
    'malformed',
    aliceTo(fixed('newAuthz'), { identifier: { type: 'dns', value: 'a..test' } }),
  ),
  used('new-authz without an identifier (§7.4.1)', 'malformed', aliceTo(fixed('newAuthz'), {})),
  used(
    'new-authz with several identifiers (§7.4.1)',
    'malformed',
    aliceTo(fixed('newAuthz'), { identifier: [{ type: 'dns', value: 'a.test' }] }),
  ),
]

const order = (more: object) => newOrderPayload({ identifiers: [{ type: 'dns', value: 'a.test' }], ...more })
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

const TIMESTAMPS: Row[] = [
  used('notBefore that is no date', 'malformed', order({ notBefore: 'tomorrow' })),
  used('notBefore that is a number', 'malformed', order({ notBefore: 1_900_000_000 })),
  used('a date without a time', 'malformed', order({ notAfter: '2027-01-01' })),
  used('a time without an offset (RFC 3339 §5.6)', 'malformed', order({ notAfter: '2027-01-01T00:00:00' })),
  used('30 February', 'malformed', order({ notAfter: '2027-02-30T00:00:00Z' })),
  used('hour 24 (RFC 3339 §5.6)', 'malformed', order({ notAfter: '2027-01-01T24:00:00Z' })),
  used('month 13', 'malformed', order({ notAfter: '2027-13-01T00:00:00Z' })),
  used('an offset of 25 hours', 'malformed', order({ notAfter: '2027-01-01T00:00:00+25:00' })),
  used('a comma as the fraction', 'malformed', order({ notAfter: '2027-01-01T00:00:00,5Z' })),
  used('notAfter in the past', 'malformed', order({ notAfter: inDays(-1) })),
  used('notAfter before notBefore', 'malformed', order({ notBefore: inDays(2), notAfter: inDays(1) })),
  used('notBefore in the past', 'malformed', order({ notBefore: inDays(-30) })),
  used('notBefore in three days', 'malformed', order({ notBefore: inDays(3) })),
  used('notBefore after the order expires', 'malformed', order({ notBefore: inDays(300) })),
  used('a validity over the maximum', 'malformed', order({ notAfter: inDays(4000) })),
  used('an unknown profile', 'invalidProfile', order({ profile: 'nonexistent' })),
  used('a profile that is a number', 'malformed', order({ profile: 1 })),
]

function contact(...contacts: string[]): Make {
  const key = newAccountKey()
  return async ({ alice }, nonce) => {
    const url = alice.directory['newAccount'] as string
    const jws = signedJws(key, { alg: 'ES256', nonce, url, jwk: key.jwk }, { payload: { contact: contacts } })
    return { url, headers: JOSE, body: JSON.stringify(jws) }
  }
}

const CONTACTS: Row[] = [
  used('a telephone contact', 'unsupportedContact', contact('tel:+1-201-555-0123')),
  used('a contact without a scheme', 'unsupportedContact', contact('admin@a.test')),
  used('a contact without an address', 'invalidContact', contact('mailto:')),
  used('a contact without a domain', 'invalidContact', contact('mailto:admin')),
  used('a contact whose domain has no dot', 'invalidContact', contact('mailto:admin@localhost')),
  used('a contact with header fields (§7.3)', 'invalidContact', contact('mailto:admin@a.test?subject=x')),
  used('a contact with two addresses (§7.3)', 'invalidContact', contact('mailto:a@a.test,b@a.test')),
  used('a contact with a line break', 'invalidContact', contact('mailto:a@a.test\r\nBcc: b@a.test')),
  used('a contact of 256 characters', 'invalidContact', contact(`mailto:${'a'.repeat(242)}@a.test`)),
  used('eleven contacts', 'invalidContact', contact(...Array.from({ length: 11 }, (_, i) => `mailto:a${i}@a.test`))),
  used('a bad contact in an update', 'invalidContact', aliceTo(accountUrl, { contact: ['mailto:nobody'] })),
  used('onlyReturnExisting without an account (§7.3.1)', 'accountDoesNotExist', async ({ alice }, nonce) => {
    const key = newAccountKey()
    const url = alice.directory['newAccount'] as string
    const jws = signedJws(key, { alg: 'ES256', nonce, url, jwk: key.jwk }, { payload: { onlyReturnExisting: true } })
    return { url, headers: JOSE, body: JSON.stringify(jws) }
  }),
]

const under =
  (prefix: string, id: string): Url =>
  ({ service }) =>
    `${service.baseUrl}/${prefix}/${id}`
const unknown = (prefix: string, suffix = ''): Url => under(prefix, `0190${randomUUID().slice(4)}${suffix}`)

function method(name: string, url: Url): Make {
  return (world) => ({ method: name, url: url(world) })
}

function notAllowed(name: string, url: Url, allow: string): Row {
  return {
    name: `${name} of ${url({ alice: { directory: new Proxy({}, { get: (_, key) => String(key) }), kid: 'an account' }, orders: { pending: 'an order' } } as unknown as World)}`,
    type: 'malformed',
    status: 405,
    nonce: 'kept',
    send: method(name, url),
    check: ({ headers }) => assert.equal(headers.allow, allow),
  }
}

const RESOURCES: Row[] = [
  kept('GET of an unknown path', 'malformed', method('GET', under('nowhere', 'at/all')), 404),
  kept('POST to an unknown path', 'malformed', aliceTo(under('nowhere', 'at/all'), {}), 404),
  kept(
    'the path of a resource with a slash behind it',
    'malformed',
    aliceTo(({ alice }) => `${alice.directory['newOrder']}/`, {}),
    404,
  ),
  kept(
    'a path with two slashes',
    'malformed',
    aliceTo(({ service }) => `${service.baseUrl}//new-order`, {}),
    404,
  ),
  kept(
    'a path that is spelled with an escape',
    'malformed',
    aliceTo(({ service }) => `${service.baseUrl}/new%2Dorder`, {}),
    404,
  ),
  kept('an order whose id is none', 'malformed', aliceTo(under('order', 'x'.repeat(36))), 404),
  kept(
    'an order whose id is in upper case',
    'malformed',
    aliceTo(({ orders }) => orders.pending.slice(0, -36) + orders.pending.slice(-36).toUpperCase()),
    404,
  ),
  used('an unknown order', 'malformed', aliceTo(unknown('order')), 404),
  used('finalize of an unknown order', 'malformed', aliceTo(unknown('order', '/finalize'), { csr: '' }), 404),
  used('an unknown authorization', 'malformed', aliceTo(unknown('authz')), 404),
  used('an unknown challenge', 'malformed', aliceTo(unknown('chall'), {}), 404),
  used(
    'a challenge of a type that was not offered',
    'malformed',
    aliceTo(({ challenge }) => `${challenge.slice(0, -1)}2`, {}),
    404,
  ),
  used(
    'a challenge of a type that does not exist',
    'malformed',
    aliceTo(({ challenge }) => `${challenge.slice(0, -1)}f`, {}),
    404,
  ),
  used('an unknown certificate', 'malformed', aliceTo(unknown('cert')), 404),
  used(
    'an orders list with a cursor that is none',
    'malformed',
    aliceTo(({ alice }) => `${alice.kid}/orders?cursor=x`),
  ),
  notAllowed('GET', fixed('newOrder'), 'POST'),
  notAllowed('GET', fixed('newAccount'), 'POST'),
  notAllowed('GET', orderUrl, 'POST'),
  notAllowed('GET', accountUrl, 'POST'),
  notAllowed('PUT', fixed('newOrder'), 'POST'),
  notAllowed('DELETE', orderUrl, 'POST'),
  notAllowed('PATCH', fixed('revokeCert'), 'POST'),
  used(
    'a payload to the directory (§6.3)',
    'malformed',
    aliceTo(({ service }) => service.directoryUrl, {}),
  ),
  used('a payload to new-nonce (§6.3)', 'malformed', aliceTo(fixed('newNonce'), {})),
  kept('DELETE of new-nonce', 'malformed', method('DELETE', fixed('newNonce')), 405),
]

const FOREIGN: Row[] = [
  used(
    "another account's order",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.order),
    403,
  ),
  used(
    "finalize of another account's order",
    'unauthorized',
    aliceTo(({ bobs }) => `${bobs.order}/finalize`, { csr: '' }),
    403,
  ),
  used(
    "another account's authorization",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.authorization),
    403,
  ),
  used(
    "deactivation of another account's authorization",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.authorization, { status: 'deactivated' }),
    403,
  ),
  used(
    "another account's challenge",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.challenge),
    403,
  ),
  used(
    "trigger of another account's challenge",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.challenge, {}),
    403,
  ),
  used(
    "another account's certificate",
    'unauthorized',
    aliceTo(({ bobs }) => bobs.certificate),
    403,
  ),
  used(
    'another account',
    'unauthorized',
    aliceTo(({ bob }) => bob.kid),
    403,
  ),
  used(
    'update of another account',
    'unauthorized',
    aliceTo(({ bob }) => bob.kid, { contact: [] }),
    403,
  ),
  used(
    'deactivation of another account',
    'unauthorized',
    aliceTo(({ bob }) => bob.kid, { status: 'deactivated' }),
    403,
  ),
  used(
    "another account's orders",
    'unauthorized',
    aliceTo(({ bob }) => `${bob.kid}/orders`),
    403,
  ),
]

const finalizeWith = (csr: (world: World) => unknown) =>
  aliceTo(
    (world) => world.finalize('ready'),
    async (world) => ({ csr: await csr(world) }),
  )

function notReady(status: Exclude<keyof World['orders'], 'ready'>): Row {
  return {
    ...used(
      `finalize of an order that is ${status} (§7.4)`,
      'orderNotReady',
      aliceTo(
        (world) => world.finalize(status),
        async () => ({ csr: await csrFor(['a.test']) }),
      ),
      403,
    ),
    check: (answer, { orders }) => assert.equal(locationOf(answer), orders[status]),
  }
}

const email = new x509.SubjectAlternativeNameExtension([
  { type: 'dns', value: 'a.test' },
  { type: 'email', value: 'a@a.test' },
])
const RSA_1024 = rsaTestKey(1024)

function rsaTestKey(modulusLength: number): TestKey {
  const pair = generateKeyPairSync('rsa', { modulusLength })
  return { ...RSA_KEY, ...pair, spki: pair.publicKey.export({ type: 'spki', format: 'der' }) }
}

function accountKeyAsSubject({ key }: AcmeClient): TestKey {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...P256_KEY, privateKey: key.privateKey, publicKey, spki: spkiOf(key) }
}

function spkiOf({ jwk }: AccountKeyPair): Buffer {
  const prefix = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')
  const point = [jwk['x'], jwk['y']].map((text) => Buffer.from(text as string, 'base64url'))
  return Buffer.concat([prefix, Buffer.of(4), ...point])
}

async function encodedCsr(options: Parameters<typeof aCsr>[1], key: TestKey = P256_KEY, change = (der: Buffer) => der) {
  return base64url(change(await aCsr(key, options)))
}

const A_TEST = [{ type: 'dns' as const, value: 'a.test' }]

const FINALIZE: Row[] = [
  notReady('pending'),
  notReady('processing'),
  notReady('valid'),
  notReady('invalid'),
  used(
    'finalize without a CSR',
    'malformed',
    aliceTo((world) => world.finalize('ready'), {}),
  ),
  used(
    'finalize without a payload',
    'malformed',
    aliceTo((world) => world.finalize('ready')),
  ),
  used(
    'a CSR that is a number',
    'malformed',
    finalizeWith(() => 1),
  ),
  used(
    'a CSR in standard base64',
    'malformed',
    finalizeWith(async () => `${await csrFor(['a.test'])}==`),
  ),
  used(
    'a CSR in PEM (§7.4)',
    'malformed',
    finalizeWith(() => '-----BEGIN CERTIFICATE REQUEST-----'),
  ),
  used(
    'an empty CSR',
    'badCSR',
    finalizeWith(() => ''),
  ),
  used(
    'a CSR of random bytes',
    'badCSR',
    finalizeWith(() => base64url(randomBytes(300))),
  ),
  used(
    'a CSR that is cut short',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST }, P256_KEY, (der) => der.subarray(0, -4))),
  ),
  used(
    'a CSR with bytes behind it',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST }, P256_KEY, (der) => Buffer.concat([der, Buffer.of(0)]))),
  ),
  used(
    'a certificate in place of a CSR',
    'badCSR',
    finalizeWith(() => base64url(aCertificate())),
  ),
  used(
    'a CSR without names',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: [] })),
  ),
  used(
    'a CSR with another name',
    'badCSR',
    finalizeWith(() => csrFor(['b.test'])),
  ),
  used(
    'a CSR with one name more',
    'badCSR',
    finalizeWith(() => csrFor(['a.test', 'b.test'])),
  ),
  used(
    'a CSR with a wildcard of the name',
    'badCSR',
    finalizeWith(() => csrFor(['*.a.test'])),
  ),
  used(
    'a CSR with an IP address more',
    'badCSR',
    finalizeWith(() => csrFor(['a.test', '127.0.0.1'])),
  ),
  used(
    'a CSR with an e-mail address more',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: [], extensions: [email] })),
  ),
  used(
    'a CSR whose common name is another name',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST, subject: 'CN=b.test' })),
  ),
  used(
    'a CSR for the account key (§11.1)',
    'badCSR',
    finalizeWith(({ alice }) => encodedCsr({ names: A_TEST }, accountKeyAsSubject(alice))),
  ),
  used(
    'a CSR for an RSA key of 1024 bits',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST }, RSA_1024)),
  ),
  used(
    'a CSR for an Ed25519 key where the profile has none',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST }, ED25519_KEY)),
  ),
  used(
    'a CSR that its key did not sign',
    'badCSR',
    finalizeWith(() => encodedCsr({ names: A_TEST }, RSA_KEY, (der) => bitTurned(der, der.length - 1))),
  ),
]

const revocation = (payload: (world: World) => object) => aliceTo(fixed('revokeCert'), payload)
const own = ({ obtained }: World) => base64url(obtained.der)

const REVOCATIONS: Row[] = [
  used(
    'revocation without a certificate',
    'malformed',
    revocation(() => ({ reason: 1 })),
  ),
  used(
    'revocation of a certificate in PEM',
    'malformed',
    revocation(({ obtained }) => ({ certificate: obtained.chain })),
  ),
  used(
    'a reason that is a string',
    'malformed',
    revocation((world) => ({ certificate: own(world), reason: '1' })),
  ),
  used(
    'a reason that is no whole number',
    'malformed',
    revocation((world) => ({ certificate: own(world), reason: 1.5 })),
  ),
  used(
    'revocation of garbage',
    'malformed',
    revocation(() => ({ certificate: base64url(randomBytes(100)) })),
  ),
  used(
    "revocation of another CA's certificate",
    'malformed',
    revocation(() => ({ certificate: base64url(aCertificate()) })),
    404,
  ),
  used(
    'revocation of a certificate with a byte behind it',
    'malformed',
    revocation(({ obtained }) => ({ certificate: base64url(Buffer.concat([obtained.der, Buffer.of(0)])) })),
  ),
  ...[2, 6, 7, 8, 10, 11, -1].map((reason) =>
    used(
      `revocation for reason ${reason}`,
      'badRevocationReason',
      revocation((world) => ({ certificate: own(world), reason })),
    ),
  ),
  used(
    "revocation of another account's certificate (§7.6)",
    'unauthorized',
    revocation(({ bobs }) => ({ certificate: base64url(bobs.der) })),
    403,
  ),
  used(
    'revocation by a key that is not of the certificate (§7.6)',
    'unauthorized',
    as(
      ({ alice }) => alice,
      fixed('revokeCert'),
      (world: World) => ({ certificate: base64url(world.bobs.der) }),
      ({ alice }) => ({ header: { kid: undefined, jwk: alice.key.jwk } }),
    ),
    403,
  ),
]

interface Inner {
  key: AccountKeyPair
  header?: Record<string, unknown>
  payload?: Record<string, unknown>
  signature?: (signature: Buffer) => Buffer
}

/** Alice's key change with something wrong inside. */
function keyChange(change: (world: World) => Partial<Inner>): Make {
  return aliceTo(fixed('keyChange'), (world: World) => {
    const { alice } = world
    const { key = newAccountKey(), header: more, payload, signature: changed } = change(world)
    const url = alice.directory['keyChange'] as string
    return signedJws(
      key,
      { alg: key.alg, url, jwk: key.jwk, ...more },
      {
        payload: { account: alice.kid, oldKey: alice.key.jwk, ...payload },
        ...(changed && { signature: changed }),
      },
    )
  })
}

const KEY_CHANGES: Row[] = [
  used('a key change without an inner JWS', 'malformed', aliceTo(fixed('keyChange'))),
  used('a key change whose payload is no JWS (§7.3.5)', 'malformed', aliceTo(fixed('keyChange'), { account: 'x' })),
  kept(
    'a key change signed with jwk (§7.3.5)',
    'malformed',
    aliceTo(fixed('keyChange'), {}, ({ alice }) => ({ header: { kid: undefined, jwk: alice.key.jwk } })),
  ),
  used(
    'an inner JWS with kid (§7.3.5)',
    'malformed',
    keyChange(({ alice }) => ({ header: { jwk: undefined, kid: alice.kid } })),
  ),
  used(
    'an inner JWS with another url (§7.3.5)',
    'malformed',
    keyChange(({ alice }) => ({ header: { url: alice.kid } })),
  ),
  used(
    'an inner JWS without url (§7.3.5)',
    'malformed',
    keyChange(() => ({ header: { url: undefined } })),
  ),
  used(
    'an inner JWS that the new key did not sign (§7.3.5)',
    'unauthorized',
    keyChange(() => ({ signature: () => Buffer.alloc(64) })),
    403,
  ),
  used(
    'an inner JWS with an alg that does not fit',
    'badSignatureAlgorithm',
    keyChange(() => ({ header: { alg: 'RS256' } })),
  ),
  used(
    'an inner JWS with alg none',
    'badSignatureAlgorithm',
    keyChange(() => ({ header: { alg: 'none' } })),
  ),
  used(
    'a key change of another account (§7.3.5)',
    'malformed',
    keyChange(({ bob }) => ({ payload: { account: bob.kid } })),
  ),
  used(
    'a key change without account (§7.3.5)',
    'malformed',
    keyChange(() => ({ payload: { account: undefined } })),
  ),
  used(
    'a key change without oldKey (§7.3.5)',
    'malformed',
    keyChange(() => ({ payload: { oldKey: undefined } })),
  ),
  used(
    'a key change with another old key (§7.3.5)',
    'malformed',
    keyChange(({ bob }) => ({ payload: { oldKey: bob.key.jwk } })),
  ),
  used(
    'a key change with an old key that is none',
    'malformed',
    keyChange(() => ({ payload: { oldKey: { kty: 'EC' } } })),
  ),
  used(
    'a key change to a private key',
    'badPublicKey',
    keyChange(() => ({ header: { jwk: P256.privateKey.export({ format: 'jwk' }) } })),
  ),
  {
    ...used(
      'a key change to the key of another account (§7.3.5)',
      'malformed',
      keyChange(({ bob }) => ({ key: bob.key })),
      409,
    ),
    check: (answer, { bob }) => assert.equal(locationOf(answer), bob.kid),
  },
  {
    ...used(
      'a key change to the same key (§7.3.5)',
      'malformed',
      keyChange(({ alice }) => ({ key: alice.key })),
      409,
    ),
    check: (answer, { alice }) => assert.equal(locationOf(answer), alice.kid),
  },
]

const AUTHORIZATIONS: Row[] = [
  used(
    'an update of an authorization to another status (§7.5.2)',
    'malformed',
    aliceTo(({ authorization }) => authorization, { status: 'valid' }),
  ),
  used(
    'an update of an authorization without a status (§7.5.2)',
    'malformed',
    aliceTo(({ authorization }) => authorization, {}),
  ),
  used(
    'deactivation of a deactivated authorization',
    'malformed',
    aliceTo(({ deactivatedAuthorization }) => deactivatedAuthorization, { status: 'deactivated' }),
  ),
  used(
    'a challenge response that is an array (§7.5.1)',
    'malformed',
    aliceTo(({ challenge }) => challenge, '[]'),
  ),
]

const TABLES: Record<string, Row[]> = {
  'body (§6.2)': BODIES,
  'media type (§6.2)': MEDIA_TYPES,
  'form of the JWS (§6.2)': SHAPES,
  'protected header (§6.2, §6.4)': HEADERS,
  'nonce (§6.5)': NONCES,
  'signer (§6.2)': SIGNERS,
  'signature (RFC 7518 §3)': SIGNATURES,
  'account key (RFC 7518 §6)': KEYS,
  payload: PAYLOADS,
  'identifiers (§7.1.3, §7.4)': IDENTIFIERS,
  'validity and profile (§7.4)': TIMESTAMPS,
  'contacts (§7.3)': CONTACTS,
  'resource and method (§6.3)': RESOURCES,
  "another account's resources": FOREIGN,
  'finalize (§7.4)': FINALIZE,
  'revocation (§7.6)': REVOCATIONS,
  'key change (§7.3.5)': KEY_CHANGES,
  'authorization and challenge (§7.5)': AUTHORIZATIONS,
}

/** What another process writes is seen after this time (services/flow-cache.ts); a finalize until then loses a race and gets the order, not a refusal. */
const SEEN_AFTER_MS = 2_100

/** Sends an order of Alice's to `processing` as if its certificate were being signed for ever. */
async function markProcessing(service: TestService, url: string): Promise<void> {
  const client = new pg.Client(service.database.connection)
  await client.connect()
  await client.query("UPDATE orders SET status = 'processing' WHERE id = $1", [url.slice(-36)])
  await client.end()
  await sleep(SEEN_AFTER_MS)
}

async function makeWorld(service: TestService, responder: Responder): Promise<World> {
  const { directoryUrl } = service
  const alice = await registeredClient(directoryUrl)
  const rita = await registeredClient(directoryUrl, newAccountKey('RS256'))
  const bob = await registeredClient(directoryUrl)
  const carol = await registeredClient(directoryUrl)
  await carol.post(carol.kid, { status: 'deactivated' })

  const obtained = await alice.obtain(['a.test'], responder)
  const pending = await alice.newOrder(['pending.test'])
  // First, because an equal order that is still open would be given back.
  const processing = await alice.newOrder(['a.test'])
  await markProcessing(service, locationOf(processing))
  const ready = await alice.newOrder(['a.test'])
  assert.equal(ready.json.status, 'ready', ready.text)
  const invalid = await alice.newOrder(['deactivated.test'])
  const deactivatedAuthorization = invalid.json.authorizations[0]
  await alice.post(deactivatedAuthorization, { status: 'deactivated' })

  const bobsCertificate = await bob.obtain(['bob.test'], responder)
  const bobsOrder = await bob.newOrder(['other.test'])
  const [bobsAuthorization] = bobsOrder.json.authorizations
  const bobsChallenge = (await bob.post(bobsAuthorization)).json.challenges[0].url

  const orders = {
    pending: locationOf(pending),
    ready: locationOf(ready),
    processing: locationOf(processing),
    valid: obtained.orderUrl,
    invalid: locationOf(invalid),
  }
  return {
    service,
    alice,
    rita,
    bob,
    carol,
    orders,
    finalize: (status) => `${orders[status]}/finalize`,
    obtained,
    bobs: {
      order: locationOf(bobsOrder),
      authorization: bobsAuthorization,
      challenge: bobsChallenge,
      certificate: bobsCertificate.certificateUrl,
      der: bobsCertificate.der,
    },
    authorization: pending.json.authorizations[0],
    deactivatedAuthorization,
    challenge: (await alice.post(pending.json.authorizations[0])).json.challenges[0].url,
  }
}

/** What every refusal has, whatever it is about. */
function checkRefusal({ status, headers, links, json }: Answer, row: Row, { service }: World, method: string): void {
  assert.equal(`${status} ${json.type}`, `${row.status} urn:ietf:params:acme:error:${row.type}`, json.detail)
  assert.equal(json.status, row.status)
  assert.ok(method === 'HEAD' || json.detail.length > 10, 'a detail that helps')
  assert.equal(headers['content-type'], 'application/problem+json')
  assert.match(String(headers['replay-nonce']), /^[A-Za-z0-9_-]{22}$/)
  assert.equal(headers['cache-control'], 'no-store')
  assert.deepEqual(links['index'], [service.directoryUrl])
  assert.equal(headers['x-content-type-options'], 'nosniff')
  if (row.type === 'badSignatureAlgorithm')
    assert.deepEqual(
      json.algorithms,
      ['ES256', 'RS256'].filter((alg) => json.algorithms.includes(alg)),
    )
}

describe('refused requests', () => {
  let service: TestService
  let responder: Responder
  let world: World
  before(async () => {
    service = await startTestService({
      config: {
        security: { identifier_policy: { forbidden_domains: ['*.forbidden.test'], public_suffix_list: 'builtin' } },
      },
    })
    responder = await startResponder(service.http01Port)
    world = await makeWorld(service, responder)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
  })

  test('the media type may have parameters and any case', async () => {
    const { alice, orders } = world
    for (const type of ['application/jose+json; charset=utf-8', 'Application/JOSE+JSON;x=y']) {
      const jws = await alice.jws(orders.pending)
      const answer = await send({ url: orders.pending, headers: { 'Content-Type': type }, body: JSON.stringify(jws) })
      assert.equal(answer.status, 200, type)
    }
  })

  test('a JWS may be spelled with white space, escapes and members in any order (RFC 8259)', async () => {
    const { alice, orders } = world
    const { protected: head, payload, signature: signed } = await alice.jws(orders.pending)
    const text = ` {\n "signature" : "${signed}",\t"p\\u0061yload":"${payload}", "protected":"${head}" } `
    assert.equal((await send({ url: orders.pending, headers: JOSE, body: text })).status, 200)
  })

  test('unknown members of a JWS, and of the one inside a key change, are ignored (RFC 7515 §7.2.1)', async () => {
    const { service, alice, orders } = world
    const jws = { ...(await alice.jws(orders.pending)), comment: 'hello', extra: [{}] }
    assert.equal((await send({ url: orders.pending, headers: JOSE, body: JSON.stringify(jws) })).status, 200)

    const client = await registeredClient(service.directoryUrl)
    const next = newAccountKey()
    const url = client.directory['keyChange'] as string
    const payload = { account: client.kid, oldKey: client.key.jwk }
    const inner = signedJws(next, { alg: next.alg, url, jwk: next.jwk }, { payload })
    const refused = await client.post(url, { ...inner, header: {} })
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:malformed')
    assert.equal((await client.post(url, { ...inner, comment: 'hello' })).status, 200)
  })

  for (const [subject, rows] of Object.entries(TABLES)) {
    describe(subject, () => {
      for (const row of rows) {
        test(`${row.name} is ${row.type} ${row.status}`, async () => {
          const nonce = await world.alice.nonce()
          const request = await row.send(world, nonce)
          const answer = await send(request)
          checkRefusal(answer, row, world, request.method ?? 'POST')
          row.check?.(answer, world)
          if (row.nonce === 'unread') return
          const next = await world.alice.post(world.alice.kid, undefined, { header: { nonce } })
          assert.equal(next.status, row.nonce === 'kept' ? 200 : 400, `the nonce is not ${row.nonce}: ${next.text}`)
        })
      }
    })
  }

  test('the order that so many bad CSRs were sent to is still ready, and is issued (§7.4)', async () => {
    const { alice } = world
    const finalized = await alice.post(world.finalize('ready'), { csr: await csrFor(['a.test']) })
    assert.equal(finalized.status, 200, finalized.text)
    assert.equal(finalized.json.status, 'valid')
  })

  test('a certificate is revoked once; again is alreadyRevoked (§7.6)', async () => {
    const { alice, obtained } = world
    const payload = { certificate: base64url(obtained.der) }
    assert.equal((await alice.post(alice.directory['revokeCert'] as string, payload)).status, 200)
    const again = await alice.post(alice.directory['revokeCert'] as string, payload)
    assert.equal(`${again.status} ${again.json.type}`, '400 urn:ietf:params:acme:error:alreadyRevoked')
  })

  test('none of this was a fault of the server in its own eyes', () => {
    const faults = service.log.filter(({ level }) => level === 'error' || level === 'fatal')
    assert.deepEqual(faults, [])
  })
})
