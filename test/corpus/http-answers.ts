/**
 * Answers to http-01 as web servers, devices and shell scripts write them: name, who writes it, whether Go proves control with it,
 * the bytes, and what our refusal says.
 *
 * Go is net/http of Go 1.19.8, asked by hand: `http.Get`, status 200, and the body without `\n\r\t ` at its end, as Boulder
 * compares it. Boulder itself does not follow 303. The server has the right answer at `TARGETS`, too.
 */

import { gzipSync } from 'node:zlib'
import { words } from '../support/words.ts'
import { KEY_AUTHORIZATION as RIGHT } from '../workers/scripted-web.ts'

export type HttpRow = readonly [name: string, from: string, go: boolean, answer: Buffer, refusal?: string]

/** Where the redirects lead. */
export const TARGETS: readonly string[] = words`/next /next?a=b /a%20b /n%C3%A9xt /.well-known/acme-challenge/next`

const bytes = (text: string) => Buffer.from(text)
const lengthOf = (body: Buffer) => `Content-Length: ${body.length}\r\n`
/** A usual response with this body. */
const ok = (body: string | Buffer, headers = '') => {
  const content = Buffer.from(body)
  return Buffer.concat([bytes(`HTTP/1.1 200 OK\r\n${headers}${lengthOf(content)}\r\n`), content])
}
const LENGTH = lengthOf(bytes(RIGHT))
/** The right body behind this start of a response. */
const started = (head: string) => bytes(`${head}\r\n${RIGHT}`)
const withStatus = (line: string) => started(`${line}\r\n${LENGTH}`)
const chunked = (body: string, headers = '') =>
  bytes(`HTTP/1.1 200 OK\r\n${headers}Transfer-Encoding: chunked\r\n\r\n${body}`)
const SIZE = RIGHT.length.toString(16)
const redirect = (status: number, location: string) =>
  bytes(`HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`)

const headed = (headers: string) => started(`HTTP/1.1 200 OK\r\n${headers}`)
const INCOMPLETE = 'no complete response'
const OTHER = 'not the key authorization'

export const HTTP_ANSWERS: readonly HttpRow[] = [
  ['exact', 'most', true, ok(RIGHT)],
  ['a line feed behind', 'echo', true, ok(`${RIGHT}\n`)],
  ['CRLF behind', 'Windows', true, ok(`${RIGHT}\r\n`)],
  ['a blank behind', 'web forms', true, ok(`${RIGHT} `)],
  ['a blank before', 'web forms', false, ok(` ${RIGHT}`), OTHER],
  ['BOM', 'Notepad, PowerShell', false, ok(`\uFEFF${RIGHT}`), OTHER],
  ['UTF-16', 'PowerShell', false, ok(Buffer.from(`\uFEFF${RIGHT}`, 'utf16le')), OTHER],
  // Go asks for gzip itself; this server asks for `identity` (RFC 9110 §12.5.3), so a decoder would only add risk.
  ['gzip', 'caches', true, ok(gzipSync(RIGHT), 'Content-Encoding: gzip\r\n'), OTHER],
  ['Content-Type text/html', 'PHP', true, ok(RIGHT, 'Content-Type: text/html; charset=UTF-8\r\n')],
  ['status 204 with a body', 'scripts', false, withStatus('HTTP/1.1 204 No Content'), 'status 204'],
  ['an empty body', 'catch-all sites', false, ok(''), OTHER],
  ['chunked', 'most', true, chunked(`${SIZE}\r\n${RIGHT}\r\n0\r\n\r\n`)],
  ['chunked in upper case', 'devices', true, chunked(`${SIZE.toUpperCase()}\r\n${RIGHT}\r\n0\r\n\r\n`)],
  ['a chunk size with zeros before', 'devices', true, chunked(`0000${SIZE}\r\n${RIGHT}\r\n0\r\n\r\n`)],
  ['a chunk size with blanks behind', 'old Apache', true, chunked(`${SIZE}  \r\n${RIGHT}\r\n0\r\n\r\n`)],
  ['chunk extensions', 'proxies', true, chunked(`${SIZE};a=b;c="d"\r\n${RIGHT}\r\n0;e\r\n\r\n`)],
  ['trailers', 'gRPC proxies', true, chunked(`${SIZE}\r\n${RIGHT}\r\n0\r\nX-Sum: 1\r\n\r\n`, 'Trailer: X-Sum\r\n')],
  ['chunks with line feeds only', 'scripts', false, chunked(`${SIZE}\n${RIGHT}\n0\n\n`), INCOMPLETE],
  ['chunks without a last one', 'scripts', false, chunked(`${SIZE}\r\n${RIGHT}\r\n`), INCOMPLETE],
  ['chunked beside Content-Length', 'proxies', true, chunked(`${SIZE}\r\n${RIGHT}\r\n0\r\n\r\n`, LENGTH)],
  // RFC 9112 §6.3 has such a body last up to the end. Go's answer is an error.
  ['Transfer-Encoding: identity', 'old Java servers', false, headed(`Transfer-Encoding: identity\r\n${LENGTH}`)],
  ['chunked and identity', 'nobody known', false, headed(`Transfer-Encoding: chunked, identity\r\n${LENGTH}`)],
  ['a body up to the end', 'CGI', true, headed('Connection: close\r\n')],
  ['no header at all', 'netcat', true, headed('')],
  ['HTTP/1.0', 'Python http.server', true, withStatus('HTTP/1.0 200 OK')],
  ['HTTP/1.0 with a body up to the end', 'netcat', true, started('HTTP/1.0 200 OK\r\n')],
  ['HTTP/1.2', 'nobody known', true, withStatus('HTTP/1.2 200 OK')],
  ['HTTP/0.9', 'netcat', false, bytes(RIGHT), INCOMPLETE],
  ['ICY', 'radio servers', false, withStatus('ICY 200 OK'), INCOMPLETE],
  ['no reason phrase', 'Tomcat', true, withStatus('HTTP/1.1 200 ')],
  ['no blank behind the status', 'scripts', true, withStatus('HTTP/1.1 200')],
  ['several blanks before the reason', 'devices', true, withStatus('HTTP/1.1 200   OK')],
  // RFC 9112 §4 has one blank there; Node's parser has no switch for more.
  ['several blanks before the status', 'devices', true, withStatus('HTTP/1.1  200 OK'), INCOMPLETE],
  ['a reason in UTF-8', 'French servers', true, withStatus('HTTP/1.1 200 Succès')],
  ['a lower-case version', 'scripts', false, withStatus('http/1.1 200 OK'), INCOMPLETE],
  ['line feeds only', 'shell scripts', true, bytes(`HTTP/1.1 200 OK\nContent-Length: ${RIGHT.length}\n\n${RIGHT}`)],
  ['line feeds only, up to the end', 'netcat', true, bytes(`HTTP/1.0 200 OK\n\n${RIGHT}`)],
  ['an empty line before', 'scripts', false, bytes(`\r\nHTTP/1.1 200 OK\r\n${LENGTH}\r\n${RIGHT}`)],
  ['headers in odd case', 'devices', true, headed(`cONTENT-lENGTH: ${RIGHT.length}\r\n`)],
  ['no blank behind the colon', 'scripts', true, headed(`Content-Length:${RIGHT.length}\r\n`)],
  ['blanks behind a length', 'devices', true, headed(`Content-Length: ${RIGHT.length}  \r\n`)],
  // RFC 9112 §5.1 has a client cut the blank off, but Node's parser has no switch for it.
  ['a blank before the colon', 'devices', true, headed(`X-Device : a\r\n${LENGTH}`), INCOMPLETE],
  ['a header without a colon', 'scripts', false, headed(`X-Device\r\n${LENGTH}`), INCOMPLETE],
  // RFC 9110 §5.1 requires a name.
  ['a header without a name', 'scripts', true, headed(`: a\r\n${LENGTH}`), INCOMPLETE],
  // A name is a token (RFC 9110 §5.1).
  ['a blank inside a name', 'scripts', true, headed(`X Device: a\r\n${LENGTH}`), INCOMPLETE],
  ['obs-fold', 'old mail programs', true, headed(`X-Device: a\r\n  b\r\n${LENGTH}`)],
  ['a value in UTF-8', 'PHP', true, headed(`X-Author: Zoë\r\n${LENGTH}`)],
  ['a value with a control character', 'devices', true, headed(`X-Device: a\x01b\r\n${LENGTH}`)],
  // RFC 9112 §6.3 permits to read it; Node's parser has no switch for it.
  ['an equal length twice', 'proxies', true, headed(`${LENGTH}${LENGTH}`), INCOMPLETE],
  [
    'an equal length twice in one header',
    'proxies',
    false,
    headed(`Content-Length: ${RIGHT.length}, ${RIGHT.length}\r\n`),
    INCOMPLETE,
  ],
  ['two lengths', 'response splitting', false, headed(`${LENGTH}Content-Length: 5\r\n`), INCOMPLETE],
  ['a length with a sign', 'scripts', false, headed(`Content-Length: +${RIGHT.length}\r\n`), INCOMPLETE],
  // A length that is no number makes the framing unknown (RFC 9112 §6.3).
  ['an empty length', 'scripts', true, headed('Content-Length:\r\n'), INCOMPLETE],
  ['a length that is too long', 'scripts', false, ok(RIGHT, 'X-Device: a\r\n').subarray(0, -1), INCOMPLETE],
  ['bytes behind the length', 'scripts', true, Buffer.concat([ok(RIGHT), bytes('\r\n\r\n')])],
  ['100 before', 'proxies', true, Buffer.concat([bytes('HTTP/1.1 100 Continue\r\n\r\n'), ok(RIGHT)])],
  ['102 before', 'WebDAV servers', true, Buffer.concat([bytes('HTTP/1.1 102 Processing\r\n\r\n'), ok(RIGHT)])],
  ['103 before', 'CDNs', true, Buffer.concat([bytes('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'), ok(RIGHT)])],
  ...[301, 302, 307, 308].map((status): HttpRow => [`${status}`, 'most', true, redirect(status, '/next')]),
  // The Baseline Requirements (3.2.2.4.19) name these four alone.
  ['303', 'web applications', true, redirect(303, '/next'), 'status 303'],
  ['300', 'nobody known', false, redirect(300, '/next'), 'status 300'],
  ['a relative Location', 'PHP', true, redirect(302, 'next')],
  ['a Location with blanks around', 'scripts', true, redirect(302, '  /next  ')],
  ['a Location with a fragment', 'web applications', true, redirect(302, '/next#top')],
  ['a Location with a query', 'web applications', true, redirect(302, '/next?a=b')],
  ['a Location with a blank inside', 'PHP', true, redirect(302, '/a b')],
  ['a Location in UTF-8', 'PHP', true, redirect(302, '/néxt')],
  ['a Location percent-encoded', 'most', true, redirect(302, '/n%C3%A9xt')],
  ['an empty Location', 'scripts', false, redirect(302, ''), 'redirect'],
  [
    'no Location',
    'scripts',
    false,
    bytes('HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n'),
    'redirect without a Location',
  ],
]
