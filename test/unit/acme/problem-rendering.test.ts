/** Problems as replies (RFC 8555 §6.7, RFC 7807): whatever is refused, and in whatever words, the client gets one valid document. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fixedAcmeHeaders, problemReply, renderReply } from '../../../src/acme/application.ts'
import { FixedHeaders } from '../../../src/http/http-message.ts'
import { keysOf } from '../../../src/shared/lib/encoding.ts'
import { PROBLEMS, Problem, type ProblemOptions } from '../../../src/shared/protocol/problem.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { forAnyInput } from '../../support/property-runs.ts'
import { randomOctets } from '../shared/pki/support.ts'

const URN = 'urn:ietf:params:acme:error:'
const CONTEXT = {
  nonce: 'bm9uY2U',
  requestId: 'id',
  fixedHeaders: new FixedHeaders(fixedAcmeHeaders('https://ca.example/directory', [])),
}

/** As it may come out of a request: control characters, lone surrogates, bytes that are no UTF-8. */
const text = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 60 }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 30 }).map((units) => String.fromCharCode(...units)),
  randomOctets(60).map((bytes) => bytes.toString('latin1')),
  randomOctets(60).map((bytes) => bytes.toString('utf8')),
)
/** fast-check's own for URLs takes half a second to make. */
const url = fc.stringMatching(/^https:\/\/[a-z0-9]{1,12}\.example\/[!-~]{0,30}$/)
const type = fc.constantFrom(...keysOf(PROBLEMS))
const subproblem = fc.record(
  { type, detail: text, identifier: fc.record({ type: text, value: text }) },
  { requiredKeys: ['type', 'detail'], noNullPrototype: true },
)
const options: fc.Arbitrary<ProblemOptions> = fc.record(
  {
    cause: text,
    status: fc.constantFrom(401, 404, 405, 406, 409, 413, 415, 503),
    retryAfterSeconds: fc.nat(),
    subproblems: fc.array(subproblem, { maxLength: 5 }),
    algorithms: fc.array(fc.constantFrom('ES256', 'RS256')),
    instance: url,
    location: url,
  },
  { requiredKeys: [], noNullPrototype: true },
)
test('any problem is one JSON document of UTF-8 with type, detail and status, and says nothing of its cause', () =>
  forAnyInput(type, text, options, (kind, detail, more) => {
    const { status, headers, body } = renderReply(problemReply(new Problem(kind, detail, more)), CONTEXT)
    const sent = Buffer.from(body).toString('utf8')
    assert.equal(sent, body, 'UTF-8 carries all of it')
    const document = JSON.parse(sent) as Record<string, unknown>
    assert.equal(status, more.status ?? PROBLEMS[kind].status)
    const expected = {
      type: URN + kind,
      detail,
      status,
      ...(more.subproblems && { subproblems: more.subproblems.map((sub) => ({ ...sub, type: URN + sub.type })) }),
      ...(more.algorithms && { algorithms: more.algorithms }),
      ...(more.instance !== undefined && { instance: more.instance }),
    }
    assert.deepEqual(document, JSON.parse(JSON.stringify(expected)))
    assert.equal(JSON.stringify(document), sent, 'what is read and written again is the same text')
    const types = headers.filter(([name]) => name === 'Content-Type')
    assert.deepEqual(types, [['Content-Type', 'application/problem+json']])
    for (const [name, value] of headers) assert.match(`${name}: ${value}`, /^[\x20-\x7e]+$/, 'no text of a client')
  }))
