import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type HttpResponse, ResponseParser } from '../../../bench/client/response-parser.ts'

/** Feeds `text` in pieces cut at `cuts`. */
function parse(text: string, cuts: readonly number[] = [], method = 'GET'): HttpResponse | undefined {
  const parser = new ResponseParser()
  parser.expect(method)
  const edges = [0, ...[...cuts].sort((a, b) => a - b), text.length]
  let response: HttpResponse | undefined
  for (let i = 1; i < edges.length; i++) response = parser.push(text.slice(edges[i - 1], edges[i])) ?? response
  return response
}

const PLAIN =
  'HTTP/1.1 201 Created\r\nReplay-Nonce: abc\r\ncontent-type:application/json\r\nLOCATION: https://ca.test/1\r\n' +
  'Retry-After: 3\r\nLink: <https://ca.test/dir>;rel="index"\r\nContent-Length: 7\r\n\r\n{"a":1}'
const CHUNKED =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\nA\r\n, chunked!\r\n0\r\nTrailer: x\r\n\r\n'

describe('HTTP/1.1 responses', () => {
  test('keep what ACME clients act on, whatever the case of the names', () => {
    assert.deepEqual(parse(PLAIN), {
      status: 201,
      contentType: 'application/json',
      replayNonce: 'abc',
      location: 'https://ca.test/1',
      retryAfter: '3',
      close: false,
      body: '{"a":1}',
    })
  })

  for (const [kind, text] of Object.entries({ PLAIN, CHUNKED })) {
    test(`${kind.toLowerCase()} ones are the same in whatever pieces they arrive`, () => {
      fc.assert(
        fc.property(fc.array(fc.nat(text.length), { maxLength: 12 }), (cuts) =>
          assert.deepEqual(parse(text, cuts), parse(text)),
        ),
      )
    })
  }

  test('join chunks and skip trailers', () => assert.equal(parse(CHUNKED)?.body, 'hello, chunked!'))

  test('to HEAD have no body whatever Content-Length says', () => {
    assert.equal(parse('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n', [], 'HEAD')?.body, '')
  })

  test('without a length run to the end of the connection', () => {
    const parser = new ResponseParser()
    parser.expect('GET')
    assert.equal(parser.push('HTTP/1.0 200 OK\r\n\r\nsome'), undefined)
    assert.equal(parser.push(' text'), undefined)
    const response = parser.end()
    assert.equal(response?.body, 'some text')
    assert.equal(response.close, true)
  })

  test('cut off before their end are no responses', () => {
    const parser = new ResponseParser()
    parser.expect('GET')
    assert.equal(parser.push(PLAIN.slice(0, -1)), undefined)
    assert.equal(parser.end(), undefined)
  })

  test('follow interim ones', () => {
    assert.equal(parse(`HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n${PLAIN}`)?.status, 201)
  })

  test('come one after another on a connection', () => {
    const parser = new ResponseParser()
    for (let i = 0; i < 3; i++) {
      parser.expect('GET')
      assert.equal(parser.push(PLAIN)?.body, '{"a":1}')
      assert.equal(parser.hasLeftover, false)
    }
  })

  test('that are none fail with the kind protocol', () => {
    for (const text of [
      'SSH-2.0-x\r\n\r\n',
      'HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
    ]) {
      assert.throws(() => parse(text), { kind: 'protocol' })
    }
  })

  test('of any bytes parse, wait for more or fail with the kind protocol', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii', maxLength: 200 }), (noise) => {
        try {
          parse(`HTTP/1.1 200 OK\r\n${noise}`)
        } catch (error) {
          assert.equal((error as { kind?: string }).kind, 'protocol')
        }
      }),
    )
  })
})
