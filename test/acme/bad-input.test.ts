/**
 * Requests that must be refused (RFC 8555 §6, §7; RFC 7515): one row each with the exact problem and status.
 *
 * Every row is checked for what all refusals share: a problem document, a fresh nonce, the index link, no 5xx. And for
 * the nonce it was sent with: `kept` rows are refused before it is used up (header comment of `src/acme/gate.ts`), so
 * a correct request with the same nonce still succeeds; after `used` rows it is a badNonce.
 */

import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AccountKeyPair,
  type AcmeClient,
  type Answer,
  base64url,
  csrFor,
  idOf,
  JOSE,
  locationOf,
  newAccountKey,
  type Obtained,
  type RawRequest,
  type RequestParts,
  type Responder,
  registeredClient,
  revoke,
  send,
  signedJws,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { rowsIn } from '../support/database.ts'
import type { TestService } from '../support/service.ts'
import { aCertificate, aCsr, P256_KEY, type TestKey, x509 } from '../unit/shared/pki/support.ts'

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

/** The same with other members of its JWS. */
const members = (changes: object) => body((jws) => ({ ...jws, ...changes }))

type Members = Record<string, unknown>

/** The same with other members of its protected header. */
const header = (changes: Members | ((world: World) => Members)): Make =>
  aliceTo(orderUrl, undefined, (world) => ({ header: typeof changes === 'function' ? changes(world) : changes }))

function headerText(change: (text: string) => string | Buffer): Make {
  return aliceTo(orderUrl, undefined, ({ alice, orders }, nonce) => ({
    headerText: change(JSON.stringify({ alg: 'ES256', nonce, url: orders.pending, kid: alice.kid })),
  }))
}

function signature(change: (signature: Buffer) => Buffer): Make {
  return aliceTo(orderUrl, undefined, { signature: change })
}

const signatureOfRita = (change: (signature: Buffer) => Buffer): Make =>
  as(
    ({ rita }) => rita,
    ({ rita }) => rita.kid,
    undefined,
    { signature: change },
  )

type Check = NonNullable<Row['check']>

/** Rows by name of one problem that is found before the nonce is used up, or after. */
const rowsOf =
  (nonce: 'kept' | 'used') =>
  (status: number, type: string, rows: Record<string, Make>, check?: Check): Row[] =>
    Object.entries(rows).map(([name, send]) => ({ name, type, status, nonce, send, ...(check && { check }) }))
const kept = rowsOf('kept')

/** The sentence, for the reader of a client's log. */
const says =
  (sentence: RegExp): Check =>
  ({ json }) =>
    assert.match(json.detail, sentence)
const used = rowsOf('used')

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
  ...kept(400, 'malformed', {
    'an empty body': async ({ orders }) => ({ url: orders.pending, headers: JOSE, body: '' }),
    'a truncated body': body((jws) => JSON.stringify(jws).slice(0, -20)),
    'a body that is an array': body((jws) => [jws]),
    'a body that is null': body(() => 'null'),
    'a body that is a string': body((jws) => JSON.stringify(JSON.stringify(jws))),
    'a body that is no text': body(() => randomBytes(200)),
    'a body with a byte order mark': body((jws) => `\ufeff${JSON.stringify(jws)}`),
    'a body with something behind it': body((jws) => `${JSON.stringify(jws)}}`),
    'two JWS in one body': body((jws) => JSON.stringify(jws) + JSON.stringify(jws)),
    'a body nested 30,000 deep': body(() => `{"protected":${'['.repeat(30_000)}${']'.repeat(30_000)}}`),
  }),
  ...kept(413, 'malformed', {
    'a body over the limit': body((jws) => JSON.stringify(jws).padEnd(65_537)),
    'a body far over the limit': body((jws) => JSON.stringify(jws).padEnd(600_000)),
  }),
]

function mediaType(headers: Record<string, string>): Make {
  return async ({ alice, orders }, nonce) => ({
    url: orders.pending,
    headers,
    body: JSON.stringify(await alice.jws(orders.pending, { header: { nonce } })),
  })
}

const MEDIA_TYPES: Row[] = [
  ...kept(415, 'malformed', {
    'no media type': mediaType({}),
    'application/json (§6.2)': mediaType({ 'Content-Type': 'application/json' }),
    'application/jose (§6.2)': mediaType({ 'Content-Type': 'application/jose' }),
    'a media type that only mentions the right one': mediaType({
      'Content-Type': 'text/plain; x=application/jose+json',
    }),
    'a media type with a suffix': mediaType({ 'Content-Type': 'application/jose+json-seq' }),
  }),
]

const SHAPES: Row[] = [
  ...kept(400, 'malformed', {
    'the general JWS serialization (§6.2)': body(({ protected: head, payload, signature: signed }) => ({
      payload,
      signatures: [{ protected: head, signature: signed }],
    })),
    'flattened and general serialization at once': body((jws) => ({
      ...jws,
      signatures: [{ protected: jws['protected'], signature: jws['signature'] }],
    })),
    'the compact serialization': body((jws) => `${jws['protected']}.${jws['payload']}.${jws['signature']}`),
    'an unprotected header (§6.2)': members({ header: { kid: 'x' } }),
    'no protected member': body(({ protected: _, ...jws }) => jws),
    'no payload member (§6.3)': body(({ payload: _, ...jws }) => jws),
    'no signature member': body(({ signature: _, ...jws }) => jws),
    'a signature that is a number': members({ signature: 1 }),
    'a payload that is null': members({ payload: null }),
    'a payload that is an object and not its encoding': members({ payload: {} }),
    'a duplicate payload member (RFC 7515 §4)': body((jws) => `{"payload":"e30",${JSON.stringify(jws).slice(1)}`),
    'a duplicate member spelled with an escape': body(
      (jws) => `{"p\\u0061yload":"e30",${JSON.stringify(jws).slice(1)}`,
    ),
    'padding in protected (§6.1)': body((jws) => ({ ...jws, protected: `${jws['protected']}==` })),
    'padding in the signature (§6.1)': body((jws) => ({ ...jws, signature: `${jws['signature']}==` })),
    'padding alone as the payload': members({ payload: '=' }),
    'a signature with a second spelling of its last byte': body((jws) => ({
      ...jws,
      signature: otherTail(jws['signature'] as string),
    })),
    'the standard base64 alphabet': members({
      signature: Buffer.alloc(64, 0xff).toString('base64').replaceAll('=', ''),
    }),
    'white space inside the signature': body((jws) => ({ ...jws, signature: ` ${jws['signature']}` })),
    'base64url of an impossible length': members({ payload: 'A' }),
    'an empty protected header': members({ protected: '' }),
    'a protected header that is no JSON': headerText(() => 'alg=ES256'),
    'a protected header that is an array': headerText((text) => `[${text}]`),
    'a protected header that is no UTF-8': headerText((text) =>
      Buffer.from(`${text.slice(0, -1)},"x":"\xff"}`, 'latin1'),
    ),
    'a duplicate member in the protected header (RFC 7515 §4)': headerText((text) =>
      text.replace('{', '{"alg":"none",'),
    ),
    'crit (RFC 7515 §4.1.11)': header({ crit: ['b64'], b64: true }),
    'crit that names url': header({ crit: ['url'] }),
    'an empty crit': header({ crit: [] }),
    'b64 false (RFC 7797)': header({ b64: false }),
  }),
]

const HEADERS: Row[] = [
  ...kept(400, 'malformed', {
    'no alg': header({ alg: undefined }),
    'an alg that is no string': header({ alg: 256 }),
    'no url (§6.4)': header({ url: undefined }),
    'a url that is no string': header({ url: [] }),
    'neither jwk nor kid (§6.2)': header({ kid: undefined }),
    'both jwk and kid (§6.2)': header(({ alice }) => ({ jwk: alice.key.jwk })),
    'a kid that is no string': header({ kid: 7 }),
    'a jwk that is a string': header({ kid: undefined, jwk: 'key' }),
    'a jwk that is null': header({ kid: undefined, jwk: null }),
    'a jwk that is an array': header({ kid: undefined, jwk: [] }),
  }),
  ...kept(400, 'badSignatureAlgorithm', {
    'alg none (§6.2)': header({ alg: 'none' }),
    'a MAC as alg (§6.2)': header({ alg: 'HS256' }),
    'an alg that is not enabled': header({ alg: 'ES384' }),
    'an alg in lower case': header({ alg: 'es256' }),
    'an alg that names a member of Object': header({ alg: 'constructor' }),
    'an alg that does not fit the key': header({ alg: 'RS256' }),
  }),
  ...kept(403, 'unauthorized', {
    'the url of another resource (§6.4)': header(({ orders }) => ({ url: orders.ready })),
    'a url with a query that the request has not': header(({ orders }) => ({ url: `${orders.pending}?a=b` })),
    'a request with a query that the url has not': async (world, nonce) => {
      const made = await aliceTo(orderUrl)(world, nonce)
      return { ...made, url: `${made.url}?a=b` }
    },
    'a url of another scheme': header(({ orders }) => ({ url: orders.pending.replace('http:', 'https:') })),
    'a url of another host': header(({ orders }) => ({ url: orders.pending.replace('127.0.0.1', 'localhost') })),
    'a url with a fragment': header(({ orders }) => ({ url: `${orders.pending}#a` })),
    'a url in another case (§6.4 compares text)': header(({ orders }) => ({
      url: orders.pending.replace('http', 'HTTP'),
    })),
    'a url whose port is written otherwise, as a default port is': header(({ orders }) => ({
      url: orders.pending.replace(/:(?=\d)/, ':0'),
    })),
    'a url with a trailing slash': header(({ orders }) => ({ url: `${orders.pending}/` })),
    'the path alone as url': header(({ orders }) => ({ url: new URL(orders.pending).pathname })),
  }),
]

const NONCES: Row[] = [
  ...kept(400, 'badNonce', {
    'no nonce (§6.5)': header({ nonce: undefined }),
    'a forged nonce': header(() => ({ nonce: base64url(randomBytes(16)) })),
    'a nonce in the form of another server': header({ nonce: base64url(Buffer.alloc(32, 7)) }),
  }),
  ...kept(400, 'malformed', {
    'a nonce that is no string (§6.5.2)': header({ nonce: 1 }),
    'a nonce with padding (§6.5.2)': header({ nonce: 'AAAAAAAAAAAAAAAAAAAAAA==' }),
    'a nonce that no base64url is (§6.5.2)': header({ nonce: 'n+nce/' }),
    'a nonce of an impossible base64url length (§6.5.2)': header({ nonce: 'AAAAA' }),
    'an empty nonce': header({ nonce: '' }),
  }),
  ...used(400, 'badNonce', {
    'a nonce that was used before (§6.5)': async (world, nonce) => {
      const made = await aliceTo(orderUrl)(world, nonce)
      assert.equal((await send(made)).status, 200)
      return made
    },
  }),
]

const SIGNERS: Row[] = [
  ...kept(400, 'accountDoesNotExist', {
    'a kid of another host': header(({ alice }) => ({ kid: alice.kid.replace('127.0.0.1', 'localhost') })),
    'a kid of an account that does not exist': header(({ alice }) => ({ kid: alice.kid.slice(0, -36) + randomUUID() })),
    'a kid with a query': header(({ alice }) => ({ kid: `${alice.kid}?` })),
    'a kid with a fragment': header(({ alice }) => ({ kid: `${alice.kid}#key` })),
    'a kid in upper case': header(({ alice }) => ({
      kid: alice.kid.slice(0, -36) + alice.kid.slice(-36).toUpperCase(),
    })),
    'a kid that is only the id': header(({ alice }) => ({ kid: alice.kid.slice(-36) })),
    'a kid that is an order': header(({ orders }) => ({ kid: orders.ready })),
  }),
  ...kept(400, 'malformed', {
    'an empty kid, which counts as none': header({ kid: '' }),
    'jwk where kid is needed (§6.2)': aliceTo(
      fixed('newOrder'),
      { identifiers: [] },
      { withJwk: true, header: { kid: undefined } },
    ),
    'kid where jwk is needed (§6.2)': aliceTo(fixed('newAccount'), {}),
  }),
  ...used(401, 'unauthorized', {
    'a deactivated account (§7.3.6)': as(({ carol }) => carol, accountUrl),
    'a deactivated account that orders (§7.3.6)': as(({ carol }) => carol, fixed('newOrder'), {
      identifiers: [{ type: 'dns', value: 'x.test' }],
    }),
    'the key of a deactivated account at new-account (§7.3.6)': as(
      ({ carol }) => carol,
      fixed('newAccount'),
      {},
      { withJwk: true },
    ),
  }),
]

const SIGNATURES: Row[] = [
  ...kept(403, 'unauthorized', {
    'an empty signature': members({ signature: '' }),
    'a signature with a bit turned': signature((bytes) => bitTurned(bytes, 9)),
    'a signature of zeros': signature(() => Buffer.alloc(64)),
    'the signature of another key': aliceTo(orderUrl, undefined, ({ bob }) => ({ key: bob.key })),
    'a signature over another payload': members({ payload: base64url('{}') }),
    'an RSA signature cut short': signatureOfRita((bytes) => bytes.subarray(0, 255)),
    'an RSA signature of zeros': signatureOfRita(() => Buffer.alloc(256)),
  }),
  ...kept(
    403,
    'unauthorized',
    {
      'a signature that is one byte short': signature((bytes) => bytes.subarray(0, 63)),
      'a signature that is one byte long': signature((bytes) => Buffer.concat([bytes, Buffer.of(0)])),
    },
    says(/^the ES256 signature has 6[35] octets; it must have 64: R and S of 32 octets each \(RFC 7518 §3\.4\)$/),
  ),
  ...kept(
    403,
    'unauthorized',
    { 'a signature in DER (RFC 7518 §3.4)': signature(toDer) },
    says(/^the ES256 signature has \d+ octets, which are DER; it must have 64/),
  ),
]

const P256 = newAccountKey()
const P384 = newAccountKey('ES384')
const ED = newAccountKey('EdDSA')
const RSA = newAccountKey('RS256')

/** Registration with a jwk of any content, signed by a key that may have nothing to do with it. */
function registration(jwk: object, key: AccountKeyPair = P256, payload: object = {}): Make {
  return async ({ alice }, nonce) => {
    const url = alice.directory['newAccount'] as string
    const jws = signedJws(key, { alg: key.alg, nonce, url, jwk }, { payload })
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
  ...kept(400, 'badPublicKey', {
    'a private EC key': registration(P256.privateKey.export({ format: 'jwk' })),
    'a private RSA key': registration(RSA.privateKey.export({ format: 'jwk' }), RSA),
    'an RSA key with one of its primes': registration(
      { ...RSA.jwk, p: (RSA.privateKey.export({ format: 'jwk' }) as { p: string }).p },
      RSA,
    ),
    'a symmetric key': registration({ kty: 'oct', k: base64url('secret') }),
    'a key without kty': registration({ ...P256.jwk, kty: undefined }),
    'an empty key': registration({}),
    'a point that is not on the curve': registration({ ...P256.jwk, y: base64url(Buffer.alloc(32, 5)) }),
    'the point at zero': registration({ ...P256.jwk, x: base64url(Buffer.alloc(32)), y: base64url(Buffer.alloc(32)) }),
    'a coordinate longer than the curve': registration({ ...P256.jwk, x: base64url(Buffer.alloc(33, 9)) }),
    'a key without y': registration({ ...P256.jwk, y: undefined }),
    'a coordinate that is a number': registration({ ...P256.jwk, x: 5 }),
    'a coordinate with padding': registration({ ...P256.jwk, x: `${P256.jwk['x']}=` }),
    'a curve that JWS has not': registration({ ...P256.jwk, crv: 'P-224' }),
    'a curve that names a member of Object': registration({ ...P256.jwk, crv: 'constructor' }),
    'a curve that is not enabled': registration({ ...newAccountKey('ES512').jwk }),
    'an X25519 key': registration({ ...ED.jwk, crv: 'X25519' }),
    'an RSA modulus that is even': registration({ ...RSA.jwk, n: modulus(2048, true) }, RSA),
    'an RSA modulus of 1024 bits': registration(newAccountKey('RS256', 1024).jwk, RSA),
    'an RSA modulus of 2040 bits': registration({ ...RSA.jwk, n: modulus(2040) }, RSA),
    'an RSA modulus of 16384 bits': registration({ ...RSA.jwk, n: modulus(16384) }, RSA),
    'a small RSA modulus with zeros in front': registration(
      { ...RSA.jwk, n: base64url(Buffer.concat([Buffer.alloc(256), randomBytes(64)])) },
      RSA,
    ),
    'RSA exponent 1': registration({ ...RSA.jwk, e: 'AQ' }, RSA),
    'RSA exponent 3': registration({ ...RSA.jwk, e: 'Aw' }, RSA),
    'an even RSA exponent': registration({ ...RSA.jwk, e: 'AQAC' }, RSA),
    'an RSA exponent of 5 bytes': registration({ ...RSA.jwk, e: 'AQAAAAE' }, RSA),
    'an RSA key without n': registration({ ...RSA.jwk, n: undefined }, RSA),
  }),
  ...kept(400, 'badSignatureAlgorithm', {
    'a P-384 key with ES256': registration(P384.jwk),
    'an Ed25519 key with ES256': registration(ED.jwk),
  }),
  ...kept(403, 'unauthorized', { 'a jwk that is not the key that signed': registration(newAccountKey().jwk) }),
]

const bobRegisters = (payload: RequestParts['payload']) =>
  as(({ bob }) => bob, fixed('newAccount'), payload, { withJwk: true })
const newOrderPayload = (payload: object | string | Buffer) => aliceTo(fixed('newOrder'), payload)

const PAYLOADS: Row[] = [
  ...used(400, 'malformed', {
    'a payload that is null': newOrderPayload('null'),
    'a payload that is an array': newOrderPayload('[]'),
    'a payload that is a string': newOrderPayload('"identifiers"'),
    'a payload that is a number': newOrderPayload('1'),
    'a payload that is truncated': newOrderPayload('{"identifiers":['),
    'a payload that is no UTF-8': newOrderPayload(Buffer.from('{"identifiers":[],"x":"\xe9"}', 'latin1')),
    'a payload with a duplicate member': newOrderPayload(
      '{"identifiers":[{"type":"dns","value":"a.test"}],"identifiers":[]}',
    ),
    'a payload with a duplicate member further down': newOrderPayload(
      '{"identifiers":[{"type":"dns","value":"a.test","value":"b.test"}]}',
    ),
    'arrays nested 20,000 deep': newOrderPayload(`{"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}`),
    'objects nested 6,000 deep': newOrderPayload(`${'{"x":'.repeat(6_000)}1${'}'.repeat(6_000)}`),
    'no payload where one is needed': aliceTo(fixed('newOrder')),
    'no payload at new-account': bobRegisters(undefined),
    'a payload to an order (§6.3)': aliceTo(orderUrl, {}),
    'a payload to a certificate (§6.3)': aliceTo(({ obtained }) => obtained.certificateUrl, {}),
    'a payload to the orders list (§6.3)': aliceTo(({ alice }) => `${alice.kid}/orders`, {}),
  }),
  ...(
    [
      ['identifiers left out', newOrderPayload({}), 'identifiers is missing'],
      [
        'identifiers null',
        newOrderPayload({ identifiers: null }),
        'identifiers must be a list of at most 1000 elements',
      ],
      [
        'identifiers that are an object',
        newOrderPayload({ identifiers: { type: 'dns', value: 'a.test' } }),
        'identifiers must be a list of at most 1000 elements',
      ],
      [
        'an identifier that is a string',
        newOrderPayload({ identifiers: ['a.test'] }),
        'identifiers[0] must be an object',
      ],
      ['an identifier that is null', newOrderPayload({ identifiers: [null] }), 'identifiers[0] must be an object'],
      [
        'an identifier without a value',
        newOrderPayload({ identifiers: [{ type: 'dns' }] }),
        'identifiers[0].value is missing; it must be a string',
      ],
      [
        'an identifier whose value is a number',
        newOrderPayload({ identifiers: [{ type: 'dns', value: 1 }] }),
        'identifiers[0].value must be a string',
      ],
      [
        'a contact that is a string',
        bobRegisters({ contact: 'mailto:a@b.test' }),
        'contact must be a list of at most 100 elements',
      ],
      ['contacts that are numbers', bobRegisters({ contact: [1] }), 'contact[0] must be a string'],
      [
        'termsOfServiceAgreed "yes"',
        bobRegisters({ termsOfServiceAgreed: 'yes' }),
        'termsOfServiceAgreed must be a boolean',
      ],
      ['onlyReturnExisting 1', bobRegisters({ onlyReturnExisting: 1 }), 'onlyReturnExisting must be a boolean'],
    ] as const
  ).flatMap(([name, make, sentence]) =>
    used(400, 'malformed', { [name]: make }, ({ json }) => assert.equal(json.detail, `payload.${sentence}`)),
  ),
]

const identifiers = (...values: (string | { type: string; value: string })[]) =>
  newOrderPayload({
    identifiers: values.map((value) => (typeof value === 'string' ? { type: 'dns', value } : value)),
  })

const IDENTIFIERS: Row[] = [
  ...used(400, 'malformed', {
    'no identifiers at all': identifiers(),
    'a trailing dot': identifiers('a.test.'),
    'a wildcard as part of a label': identifiers('w*.a.test'),
    'a bad name at new-authz (§7.4.1)': aliceTo(fixed('newAuthz'), { identifier: { type: 'dns', value: 'a..test' } }),
    'new-authz without an identifier (§7.4.1)': aliceTo(fixed('newAuthz'), {}),
    'new-authz with several identifiers (§7.4.1)': aliceTo(fixed('newAuthz'), {
      identifier: [{ type: 'dns', value: 'a.test' }],
    }),
  }),
  ...used(400, 'unsupportedIdentifier', {
    'an unknown identifier type': identifiers({ type: 'email', value: 'a@b.test' }),
    'type DNS in upper case': identifiers({ type: 'DNS', value: 'a.test' }),
    'an IP address when they are not allowed': identifiers({ type: 'ip', value: '127.0.0.1' }),
  }),
  ...used(400, 'rejectedIdentifier', {
    'a name of 254 characters': identifiers(`${'a.'.repeat(125)}test`),
    'a single label': identifiers('test'),
    'a forbidden name': identifiers('x.forbidden.test'),
    'a wildcard that no enabled challenge can validate': identifiers('*.a.test'),
    'a wildcard at new-authz (§7.4.1)': aliceTo(fixed('newAuthz'), { identifier: { type: 'dns', value: '*.a.test' } }),
  }),
  ...used(
    400,
    'compound',
    { 'several bad identifiers (§6.7.1)': identifiers('a.test.', 'b.test', 'x.forbidden.test') },
    ({ json }) => {
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
  ),
  ...used(400, 'rejectedIdentifier', { 'a wildcard right below a public suffix': identifiers('*.co.uk') }, ({ json }) =>
    assert.match(json.detail, /names below co\.uk can be registered by anyone/),
  ),
]

const order = (more: object) => newOrderPayload({ identifiers: [{ type: 'dns', value: 'a.test' }], ...more })
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

const TIMESTAMPS: Row[] = [
  ...used(400, 'malformed', {
    'notBefore that is no date': order({ notBefore: 'tomorrow' }),
    'notBefore that is a number': order({ notBefore: 1_900_000_000 }),
    'notAfter in the past': order({ notAfter: inDays(-1) }),
    'a validity over the maximum': order({ notAfter: inDays(4000) }),
    'a profile that is a number': order({ profile: 1 }),
  }),
  ...used(400, 'invalidProfile', { 'an unknown profile': order({ profile: 'nonexistent' }) }),
]

/** Of an account that is not there yet. */
function newcomer(payload: object): Make {
  const key = newAccountKey()
  return registration(key.jwk, key, payload)
}
const contact = (...contacts: string[]) => newcomer({ contact: contacts })

const CONTACTS: Row[] = [
  ...used(400, 'unsupportedContact', { 'a telephone contact': contact('tel:+1-201-555-0123') }),
  ...used(400, 'invalidContact', {
    'a contact with header fields (§7.3)': contact('mailto:admin@a.test?subject=x'),
    'a contact with a line break': contact('mailto:a@a.test\r\nBcc: b@a.test'),
    'a bad contact in an update': aliceTo(accountUrl, { contact: ['mailto:nobody'] }),
  }),
  ...used(400, 'accountDoesNotExist', {
    'onlyReturnExisting without an account (§7.3.1)': newcomer({ onlyReturnExisting: true }),
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
  ...kept(404, 'malformed', {
    'GET of an unknown path': method('GET', under('nowhere', 'at/all')),
    'POST to an unknown path': aliceTo(under('nowhere', 'at/all'), {}),
    'the path of a resource with a slash behind it': aliceTo(({ alice }) => `${alice.directory['newOrder']}/`, {}),
    'a path with two slashes': aliceTo(({ service }) => `${service.baseUrl}//new-order`, {}),
    'a path that is spelled with an escape': aliceTo(({ service }) => `${service.baseUrl}/new%2Dorder`, {}),
    'an order whose id is none': aliceTo(under('order', 'x'.repeat(36))),
    'an order whose id is in upper case': aliceTo(
      ({ orders }) => orders.pending.slice(0, -36) + orders.pending.slice(-36).toUpperCase(),
    ),
  }),
  ...used(404, 'malformed', {
    'an unknown order': aliceTo(unknown('order')),
    'finalize of an unknown order': aliceTo(unknown('order', '/finalize'), { csr: '' }),
    'an unknown authorization': aliceTo(unknown('authz')),
    'an unknown challenge': aliceTo(unknown('chall'), {}),
    'a challenge of a type that was not offered': aliceTo(({ challenge }) => `${challenge.slice(0, -1)}2`, {}),
    'a challenge of a type that does not exist': aliceTo(({ challenge }) => `${challenge.slice(0, -1)}f`, {}),
    'an unknown certificate': aliceTo(unknown('cert')),
  }),
  ...used(400, 'malformed', {
    'an orders list with a cursor that is none': aliceTo(({ alice }) => `${alice.kid}/orders?cursor=x`),
    'a payload to the directory (§6.3)': aliceTo(({ service }) => service.directoryUrl, {}),
    'a payload to new-nonce (§6.3)': aliceTo(fixed('newNonce'), {}),
  }),
  notAllowed('GET', fixed('newOrder'), 'POST'),
  notAllowed('GET', fixed('newAccount'), 'POST'),
  notAllowed('GET', orderUrl, 'POST'),
  notAllowed('GET', accountUrl, 'POST'),
  notAllowed('PUT', fixed('newOrder'), 'POST'),
  notAllowed('DELETE', orderUrl, 'POST'),
  notAllowed('PATCH', fixed('revokeCert'), 'POST'),
  ...kept(405, 'malformed', { 'DELETE of new-nonce': method('DELETE', fixed('newNonce')) }),
]

const FOREIGN: Row[] = [
  ...used(403, 'unauthorized', {
    "another account's order": aliceTo(({ bobs }) => bobs.order),
    "finalize of another account's order": aliceTo(({ bobs }) => `${bobs.order}/finalize`, { csr: '' }),
    "another account's authorization": aliceTo(({ bobs }) => bobs.authorization),
    "deactivation of another account's authorization": aliceTo(({ bobs }) => bobs.authorization, {
      status: 'deactivated',
    }),
    "another account's challenge": aliceTo(({ bobs }) => bobs.challenge),
    "trigger of another account's challenge": aliceTo(({ bobs }) => bobs.challenge, {}),
    "another account's certificate": aliceTo(({ bobs }) => bobs.certificate),
    'another account': aliceTo(({ bob }) => bob.kid),
    'update of another account': aliceTo(({ bob }) => bob.kid, { contact: [] }),
    'deactivation of another account': aliceTo(({ bob }) => bob.kid, { status: 'deactivated' }),
    "another account's orders": aliceTo(({ bob }) => `${bob.kid}/orders`),
  }),
]

const finalizeWith = (csr: (world: World) => unknown) =>
  aliceTo(
    (world) => world.finalize('ready'),
    async (world) => ({ csr: await csr(world) }),
  )

const notReady = (['pending', 'processing', 'valid', 'invalid'] as const).flatMap((status) =>
  used(
    403,
    'orderNotReady',
    {
      [`finalize of an order that is ${status} (§7.4)`]: aliceTo(
        (world) => world.finalize(status),
        async () => ({ csr: await csrFor(['a.test']) }),
      ),
    },
    (answer, { orders }) => assert.equal(locationOf(answer), orders[status]),
  ),
)

const email = new x509.SubjectAlternativeNameExtension([
  { type: 'dns', value: 'a.test' },
  { type: 'email', value: 'a@a.test' },
])
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

const A_TEST = { names: [{ type: 'dns' as const, value: 'a.test' }] }
const changedCsr = (change: (der: Buffer) => Buffer) => finalizeWith(() => encodedCsr(A_TEST, P256_KEY, change))

const FINALIZE: Row[] = [
  ...notReady,
  ...used(400, 'malformed', {
    'finalize without a CSR': aliceTo((world) => world.finalize('ready'), {}),
    'finalize without a payload': aliceTo((world) => world.finalize('ready')),
    'a CSR that is a number': finalizeWith(() => 1),
    'a CSR in standard base64': finalizeWith(async () => `${await csrFor(['a.test'])}==`),
    'a CSR in PEM (§7.4)': finalizeWith(() => '-----BEGIN CERTIFICATE REQUEST-----'),
  }),
  ...used(400, 'badCSR', {
    'an empty CSR': finalizeWith(() => ''),
    'a CSR of random bytes': finalizeWith(() => base64url(randomBytes(300))),
    'a CSR that is cut short': changedCsr((der) => der.subarray(0, -4)),
    'a CSR with bytes behind it': changedCsr((der) => Buffer.concat([der, Buffer.of(0)])),
    'a certificate in place of a CSR': finalizeWith(() => base64url(aCertificate())),
    'a CSR with another name': finalizeWith(() => csrFor(['b.test'])),
    'a CSR with one name more': finalizeWith(() => csrFor(['a.test', 'b.test'])),
    'a CSR with an e-mail address more': finalizeWith(() => encodedCsr({ names: [], extensions: [email] })),
    'a CSR whose common name is another name': finalizeWith(() => encodedCsr({ ...A_TEST, subject: 'CN=b.test' })),
    'a CSR for the account key (§11.1)': finalizeWith(({ alice }) => encodedCsr(A_TEST, accountKeyAsSubject(alice))),
  }),
]

const revocation = (payload: (world: World) => object) => aliceTo(fixed('revokeCert'), payload)
const own = ({ obtained }: World) => base64url(obtained.der)

const REVOCATIONS: Row[] = [
  ...used(400, 'malformed', {
    'revocation without a certificate': revocation(() => ({ reason: 1 })),
    'revocation of a certificate in PEM': revocation(({ obtained }) => ({ certificate: obtained.chain })),
    'a reason that is a string': revocation((world) => ({ certificate: own(world), reason: '1' })),
    'a reason that is no whole number': revocation((world) => ({ certificate: own(world), reason: 1.5 })),
    'revocation of garbage': revocation(() => ({ certificate: base64url(randomBytes(100)) })),
    'revocation of a certificate with a byte behind it': revocation(({ obtained }) => ({
      certificate: base64url(Buffer.concat([obtained.der, Buffer.of(0)])),
    })),
  }),
  ...used(404, 'malformed', {
    "revocation of another CA's certificate": revocation(() => ({ certificate: base64url(aCertificate()) })),
  }),
  ...[2, 6, 7, 8, 10, 11, -1].flatMap((reason) =>
    used(400, 'badRevocationReason', {
      [`revocation for reason ${reason}`]: revocation((world) => ({ certificate: own(world), reason })),
    }),
  ),
  ...used(403, 'unauthorized', {
    "revocation of another account's certificate (§7.6)": revocation(({ bobs }) => ({
      certificate: base64url(bobs.der),
    })),
    'revocation by a key that is not of the certificate (§7.6)': as(
      ({ alice }) => alice,
      fixed('revokeCert'),
      (world: World) => ({ certificate: base64url(world.bobs.der) }),
      ({ alice }) => ({ header: { kid: undefined, jwk: alice.key.jwk } }),
    ),
  }),
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
  ...used(400, 'malformed', {
    'a key change without an inner JWS': aliceTo(fixed('keyChange')),
    'a key change whose payload is no JWS (§7.3.5)': aliceTo(fixed('keyChange'), { account: 'x' }),
    'an inner JWS with kid (§7.3.5)': keyChange(({ alice }) => ({ header: { jwk: undefined, kid: alice.kid } })),
    'an inner JWS with another url (§7.3.5)': keyChange(({ alice }) => ({ header: { url: alice.kid } })),
    'an inner JWS without url (§7.3.5)': keyChange(() => ({ header: { url: undefined } })),
    'a key change of another account (§7.3.5)': keyChange(({ bob }) => ({ payload: { account: bob.kid } })),
    'a key change without account (§7.3.5)': keyChange(() => ({ payload: { account: undefined } })),
    'a key change without oldKey (§7.3.5)': keyChange(() => ({ payload: { oldKey: undefined } })),
    'a key change with another old key (§7.3.5)': keyChange(({ bob }) => ({ payload: { oldKey: bob.key.jwk } })),
    'a key change with an old key that is none': keyChange(() => ({ payload: { oldKey: { kty: 'EC' } } })),
  }),
  ...kept(400, 'malformed', {
    'a key change signed with jwk (§7.3.5)': aliceTo(fixed('keyChange'), {}, ({ alice }) => ({
      header: { kid: undefined, jwk: alice.key.jwk },
    })),
  }),
  ...used(403, 'unauthorized', {
    'an inner JWS that the new key did not sign (§7.3.5)': keyChange(() => ({ signature: () => Buffer.alloc(64) })),
  }),
  ...used(400, 'badSignatureAlgorithm', {
    'an inner JWS with an alg that does not fit': keyChange(() => ({ header: { alg: 'RS256' } })),
    'an inner JWS with alg none': keyChange(() => ({ header: { alg: 'none' } })),
  }),
  ...used(400, 'badPublicKey', {
    'a key change to a private key': keyChange(() => ({ header: { jwk: P256.privateKey.export({ format: 'jwk' }) } })),
  }),
  ...used(
    409,
    'malformed',
    { 'a key change to the key of another account (§7.3.5)': keyChange(({ bob }) => ({ key: bob.key })) },
    (answer, { bob }) =>
      assert.deepEqual([locationOf(answer), answer.json.detail], [bob.kid, 'another account has this key already']),
  ),
  ...used(
    409,
    'malformed',
    { 'a key change to the same key (§7.3.5)': keyChange(({ alice }) => ({ key: alice.key })) },
    (answer, { alice }) =>
      assert.deepEqual([locationOf(answer), answer.json.detail], [alice.kid, 'the account has this key already']),
  ),
]

const authorization = (payload: object) => aliceTo(({ authorization }) => authorization, payload)
const AUTHORIZATIONS: Row[] = [
  ...used(400, 'malformed', {
    'an update of an authorization to another status (§7.5.2)': authorization({ status: 'valid' }),
    'an update of an authorization without a status (§7.5.2)': authorization({}),
    'deactivation of a deactivated authorization': aliceTo(({ deactivatedAuthorization }) => deactivatedAuthorization, {
      status: 'deactivated',
    }),
    'a challenge response that is an array (§7.5.1)': aliceTo(({ challenge }) => challenge, '[]'),
  }),
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
  await rowsIn(service.database, "UPDATE orders SET status = 'processing' WHERE id = $1", [idOf(url)])
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
  const { service, responder } = acmeScene('profiles')
  let world: World
  before(async () => {
    world = await makeWorld(service, responder)
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
    assert.equal((await revoke(alice, obtained.der)).status, 200)
    const again = await revoke(alice, obtained.der)
    assert.equal(`${again.status} ${again.json.type}`, '400 urn:ietf:params:acme:error:alreadyRevoked')
  })

  test('none of this was a fault of the server in its own eyes', () => {
    const faults = service.log.filter(({ level }) => level === 'error' || level === 'fatal')
    assert.deepEqual(faults, [])
  })
})
