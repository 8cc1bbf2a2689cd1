/** The JWS parser and the signature check (RFC 7515, RFC 7518, RFC 7520, RFC 8037). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseAccountKey } from '../../../../src/shared/protocol/jwk.ts'
import {
  JWS_ALGORITHMS,
  type JwsAlgorithm,
  parseInnerJws,
  parseJws,
  parsePayload,
  verifySignature,
} from '../../../../src/shared/protocol/jws.ts'
import { Problem } from '../../../../src/shared/protocol/problem.ts'
import { newAccountKey, signedJws } from '../../../support/acme-client.ts'
import { forAllIn, forAnyInput, propertyRuns } from '../../../support/property-runs.ts'
import { mutated, randomOctets } from '../pki/support.ts'
import { JWS_VECTORS } from './jws-vectors.ts'

const ALL = Object.keys(JWS_ALGORITHMS) as JwsAlgorithm[]
const POLICY = { minRsaBits: 2048, maxRsaBits: 8192, curves: ['P-256', 'P-384', 'P-521'] as const }

for (const { source, alg, jwk, protected: head, payload, signature } of JWS_VECTORS) {
  const { publicKey } = parseAccountKey(jwk, POLICY)
  const input = Buffer.from(`${head}.${payload}`)
  const bytes = Buffer.from(signature, 'base64url')

  test(`the ${alg} signature of ${source} verifies`, () =>
    assert.equal(verifySignature(alg, publicKey, input, bytes), true))
  test(`no signature but that of ${source} verifies: a bit turned, a byte less, a byte more`, () => {
    for (const at of [0, bytes.length >> 1, bytes.length - 1]) {
      const turned = Buffer.from(bytes)
      turned[at] = (turned[at] as number) ^ 1
      assert.equal(verifySignature(alg, publicKey, input, turned), false)
    }
    assert.equal(verifySignature(alg, publicKey, input, bytes.subarray(0, -1)), false)
    assert.equal(verifySignature(alg, publicKey, input, Buffer.concat([bytes, Buffer.of(0)])), false)
    assert.equal(verifySignature(alg, publicKey, Buffer.concat([input, Buffer.of(0)]), bytes), false)
  })
}

const KEY = newAccountKey()
const HEADER = { alg: 'ES256', nonce: 'bm9uY2U', url: 'https://ca.example/order/1', kid: 'https://ca.example/acct/1' }
const bodyOf = (header: object, payload?: object) => Buffer.from(JSON.stringify(signedJws(KEY, header, { payload })))

test('a request is parsed into its header, payload, signature and what was signed', () => {
  const { header, payload, signature, signingInput } = parseJws(bodyOf(HEADER, { a: 1 }), ALL)
  const { alg, nonce, url, kid } = HEADER
  assert.deepEqual(header, { alg, nonce, url, key: { kid } })
  assert.deepEqual(parsePayload(payload), { a: 1 })
  assert.equal(signature.length, 64)
  assert.equal(verifySignature('ES256', parseAccountKey(KEY.jwk, POLICY).publicKey, signingInput, signature), true)
})

test('an empty payload is that of a POST-as-GET (RFC 8555 §6.3)', () => {
  assert.equal(parseJws(bodyOf(HEADER), ALL).payload, undefined)
  assert.throws(() => parsePayload(undefined), Problem)
})

test('what was signed are the bytes that were sent, not their decoding', () => {
  const jws = signedJws(KEY, '{ "alg" : "ES256","nonce":"bm9uY2U","url":"u","kid":"k","unknown":[1] }')
  const { signingInput, signature } = parseJws(Buffer.from(JSON.stringify(jws)), ALL)
  assert.equal(verifySignature('ES256', parseAccountKey(KEY.jwk, POLICY).publicKey, signingInput, signature), true)
})

test('an inner JWS has a jwk; its nonce is not read (RFC 8555 §7.3.5)', () => {
  const { alg, url, nonce, kid } = HEADER
  const inner = parseInnerJws(bodyOf({ alg, url, jwk: KEY.jwk }), ALL)
  assert.deepEqual(inner.header, { alg, url, jwk: KEY.jwk })
  assert.deepEqual(parseInnerJws(bodyOf({ alg, url, nonce, jwk: KEY.jwk }), ALL).header, inner.header)
  assert.throws(() => parseInnerJws(bodyOf({ alg, url, kid }), ALL), /jwk/)
})

test('only the algorithms that are allowed pass, and the problem lists them (RFC 8555 §6.2)', () => {
  assert.throws(
    () => parseJws(bodyOf(HEADER), ['RS256']),
    (error) =>
      error instanceof Problem &&
      error.type === 'badSignatureAlgorithm' &&
      error.toJSON().algorithms?.join() === 'RS256' &&
      error.message.includes('security.allowed_algorithms') &&
      error.options.key === 'security.allowed_algorithms',
  )
  assert.throws(
    () => parseJws(bodyOf({ ...HEADER, alg: 'none' }), ['RS256']),
    (error) => error instanceof Problem && !error.message.includes('security.') && error.options.key === undefined,
  )
})

/** Parses, or refuses with a Problem of the 400 family; anything else fails the test. */
function attempt(body: Buffer): ReturnType<typeof parseJws> | undefined
function attempt<T>(body: Buffer, parse: (body: Buffer, allowed: JwsAlgorithm[]) => T): T | undefined
function attempt(body: Buffer, parse: (body: Buffer, allowed: JwsAlgorithm[]) => unknown = parseJws): unknown {
  try {
    return parse(body, ALL)
  } catch (error) {
    assert.ok(error instanceof Problem, String(error))
    assert.equal(error.status, 400)
    return undefined
  }
}

test('random bytes are refused, and never fail otherwise', () =>
  forAnyInput(randomOctets(300), (bytes) => assert.equal(attempt(bytes), undefined)))

test('each of many mutated requests is parsed or refused, and what is parsed re-encodes to what was sent', () => {
  const originals = [
    bodyOf(HEADER),
    bodyOf(HEADER, { identifiers: [{ type: 'dns', value: 'a.example' }] }),
    bodyOf({ ...HEADER, kid: undefined, jwk: KEY.jwk }, {}),
  ]
  let parsed = 0
  forAllIn(propertyRuns(1_000), mutated(originals), (body) => {
    const jws = attempt(body)
    if (!jws) return
    parsed++
    const sent = JSON.parse(body.toString()) as Record<string, string>
    assert.equal(jws.signature.toString('base64url'), sent['signature'])
    assert.equal((jws.payload ?? Buffer.of()).toString('base64url'), sent['payload'])
    assert.equal(jws.signingInput.toString(), `${sent['protected']}.${sent['payload']}`)
    assert.deepEqual(Object.keys(sent).sort(), ['payload', 'protected', 'signature'])
  })
  assert.ok(parsed > 0, 'some mutations are harmless to the form')
})

test('mutated payloads and inner requests of key changes are parsed or refused, and re-encode to what was sent', () => {
  const { url } = HEADER
  const originals = [
    bodyOf({ alg: 'ES256', url, jwk: KEY.jwk }, { account: HEADER.kid, oldKey: KEY.jwk }),
    bodyOf({ alg: 'ES256', url, jwk: KEY.jwk }),
    Buffer.from(JSON.stringify({ account: HEADER.kid, oldKey: KEY.jwk, contact: ['mailto:a@b.example'] })),
  ]
  let parsed = 0
  forAnyInput(fc.oneof({ weight: 4, arbitrary: mutated(originals) }, randomOctets(300)), (bytes) => {
    const inner = attempt(bytes, parseInnerJws)
    if (inner) {
      const sent = JSON.parse(bytes.toString()) as Record<string, string>
      assert.equal(inner.signingInput.toString(), `${sent['protected']}.${sent['payload']}`)
      assert.equal(inner.signature.toString('base64url'), sent['signature'])
    }
    const payload = attempt(bytes, parsePayload)
    if (payload) assert.deepEqual(payload, JSON.parse(bytes.toString()))
    if (inner || payload) parsed++
  })
  assert.ok(parsed > 0, 'some mutations are harmless to the form')
})

test('a body as large as bodies may be takes no longer than its length explains', () => {
  const size = 65_536
  const filled = (piece: string) => piece.repeat(Math.ceil(size / piece.length)).slice(0, size)
  const bodies = [
    ...['[', '{"a":', '"', '\\', '{"payload":"', ' ', '\t\n', ',', '{"protected":"","payload":"","signature":"",'].map(
      filled,
    ),
    `{"protected":"${filled('A')}","payload":"${filled(' ')}"`,
    `{"protected":"${filled('A')}","payload":"","signature":"" ${filled(' ')}x`,
    `${filled(' ')}{"payload":"${filled('a-_')}"${filled(' ')}`,
    JSON.stringify(Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`m${at}`, 0]))),
    JSON.stringify(signedJws(KEY, `{"alg":${filled('[')}`)),
    JSON.stringify(signedJws(KEY, { ...HEADER, more: filled('a') })),
  ].map((text) => Buffer.from(text))
  for (const body of bodies) {
    const startedAt = process.cpuUsage()
    attempt(body)
    const { user, system } = process.cpuUsage(startedAt)
    // Some take 2 ms; what is quadratic in 64 KiB takes seconds.
    assert.ok(user + system < 500_000, `${body.subarray(0, 40)}: ${user + system} µs`)
  }
})

test('of mutated requests none verifies but those that only spell the JSON differently', () => {
  const original = bodyOf(HEADER, { a: 1 })
  const { signingInput } = parseJws(original, ALL)
  const { publicKey } = parseAccountKey(KEY.jwk, POLICY)
  forAnyInput(mutated([original]), (body) => {
    const jws = attempt(body)
    if (jws && verifySignature('ES256', publicKey, jws.signingInput, jws.signature))
      assert.deepEqual(jws.signingInput, signingInput)
  })
})
