/** What a JWS of ACME may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAccountKey } from '../../src/shared/protocol/jwk.ts'
import { EVERY_ALGORITHM, parseJws, verifySignature } from '../../src/shared/protocol/jws.ts'
import { Problem } from '../../src/shared/protocol/problem.ts'
import { refusalBy } from '../support/refusals.ts'
import { ENVELOPES, KEY } from './envelopes.ts'

const POLICY = { minRsaBits: 2048, maxRsaBits: 8192, curves: ['P-256'] } as const
const STORED = parseAccountKey(KEY.jwk, POLICY)

/** Reads the envelope, and verifies it with its own or the account's key. */
function read(body: Buffer): void {
  const { header, signature, signingInput } = parseJws(body, EVERY_ALGORITHM)
  const key = 'jwk' in header.key ? parseAccountKey(header.key.jwk, POLICY) : STORED
  if (!key.algorithms.includes(header.alg)) throw new Problem('badSignatureAlgorithm', 'the alg does not fit the key')
  if (!verifySignature(header.alg, key.publicKey, signingInput, signature))
    throw new Problem('malformed', 'the signature is wrong')
}

for (const [name, from, boulder, body, refusal] of ENVELOPES) {
  const reader = boulder ? 'Boulder takes it' : 'Boulder does not take it'
  if (refusal === undefined) test(`${name} (${from}) is read (${reader})`, () => read(body))
  else
    test(`${name} (${from}) is refused: ${refusal} (${reader})`, () =>
      assert.equal(refusalBy(Problem, () => read(body)).message.includes(refusal), true))
}
