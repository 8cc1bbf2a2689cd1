/**
 * Parses HTTP/1.1 responses (RFC 9112) out of a byte stream, for one connection without pipelining.
 *
 * Bytes are held as a latin1 string: one character per byte, no copying between buffers, and everything ACME sends on
 * success is ASCII. Only the headers a client of ACME acts on are kept.
 */

import { Failure } from './failure.ts'

export interface HttpResponse {
  status: number
  contentType: string
  /** Empty when the header is absent; so for the next two. */
  replayNonce: string
  location: string
  retryAfter: string
  /** The server closes the connection after this response. */
  close: boolean
  /** One character per byte. */
  body: string
}

/** No ACME object comes near this; it bounds what a broken server can make us hold. */
const MAX_BUFFERED = 16 * 1024 * 1024

interface Head {
  response: HttpResponse
  /** -1: not given. */
  contentLength: number
  chunked: boolean
}

export class ResponseParser {
  #buffered = ''
  #head: Head | undefined
  #headRequest = false

  /** Call before each request: a response to HEAD has no body whatever its headers say. */
  expect(method: string): void {
    this.#headRequest = method === 'HEAD'
  }

  /**
   * Takes what the socket gave and returns the response once it is complete.
   * @throws Failure `protocol` for bytes that are no response.
   */
  push(bytes: string): HttpResponse | undefined {
    this.#buffered = this.#buffered === '' ? bytes : this.#buffered + bytes
    if (this.#buffered.length > MAX_BUFFERED) throw new Failure('protocol', 'response larger than 16 MiB')

    this.#head ??= this.#takeHead()
    return this.#head && this.#takeBody(this.#head)
  }

  /** The peer closed: completes a response whose body runs to the end of the connection (RFC 9112 §6.3). */
  end(): HttpResponse | undefined {
    const head = this.#head
    if (!head || head.chunked || head.contentLength >= 0) return undefined
    return this.#finish(head.response, this.#buffered, this.#buffered.length)
  }

  /** True when bytes arrived that no request asked for. */
  get hasLeftover(): boolean {
    return this.#buffered !== ''
  }

  #takeHead(): Head | undefined {
    for (;;) {
      const end = this.#buffered.indexOf('\r\n\r\n')
      if (end < 0) return undefined
      const head = parseHead(this.#buffered.slice(0, end))
      this.#buffered = this.#buffered.slice(end + 4)
      // Interim responses (RFC 9110 §15.2) precede the real one.
      if (head.response.status >= 200) return head
    }
  }

  #takeBody(head: Head): HttpResponse | undefined {
    const { response } = head
    if (this.#headRequest || response.status === 204 || response.status === 304) return this.#finish(response, '', 0)

    if (head.chunked) {
      const decoded = decodeChunked(this.#buffered)
      return decoded && this.#finish(response, decoded.body, decoded.length)
    }
    if (head.contentLength < 0) {
      response.close = true
      return undefined
    }
    if (this.#buffered.length < head.contentLength) return undefined
    return this.#finish(response, this.#buffered.slice(0, head.contentLength), head.contentLength)
  }

  #finish(response: HttpResponse, body: string, length: number): HttpResponse {
    response.body = body
    this.#buffered = length === this.#buffered.length ? '' : this.#buffered.slice(length)
    this.#head = undefined
    return response
  }
}

function parseHead(text: string): Head {
  if (!text.startsWith('HTTP/1.')) throw new Failure('protocol', `not an HTTP/1 response: ${text.slice(0, 40)}`)
  const response: HttpResponse = {
    status: Number(text.slice(9, 12)),
    contentType: '',
    replayNonce: '',
    location: '',
    retryAfter: '',
    close: text.charCodeAt(7) === 0x30,
    body: '',
  }
  if (!Number.isInteger(response.status)) throw new Failure('protocol', `no status in ${text.slice(0, 40)}`)

  const head: Head = { response, contentLength: -1, chunked: false }
  for (let start = text.indexOf('\r\n') + 2; start >= 2; ) {
    const end = text.indexOf('\r\n', start)
    readHeader(head, text, start, end < 0 ? text.length : end)
    start = end < 0 ? -1 : end + 2
  }
  return head
}

/** The length of a name tells most headers apart, so that only candidates are cut out and lower-cased. */
function readHeader(head: Head, text: string, start: number, end: number): void {
  const colon = text.indexOf(':', start)
  if (colon < 0 || colon > end) return
  const is = (name: string) => text.slice(start, colon).toLowerCase() === name
  const value = () => text.slice(colon + 1, end).trim()
  const { response } = head

  switch (colon - start) {
    case 8:
      if (is('location')) response.location = value()
      break
    case 10:
      if (is('connection')) response.close = value().toLowerCase().includes('close')
      break
    case 11:
      if (is('retry-after')) response.retryAfter = value()
      break
    case 12:
      if (is('replay-nonce')) response.replayNonce = value()
      else if (is('content-type')) response.contentType = value()
      break
    case 14:
      if (is('content-length')) head.contentLength = parseLength(value())
      break
    case 17:
      if (is('transfer-encoding')) head.chunked = value().toLowerCase() === 'chunked'
      break
  }
}

function parseLength(value: string): number {
  if (!/^\d{1,9}$/.test(value)) throw new Failure('protocol', `Content-Length ${value}`)
  return Number(value)
}

/** @returns undefined while the last chunk (RFC 9112 §7.1) is not there; trailers are skipped. */
function decodeChunked(text: string): { body: string; length: number } | undefined {
  let body = ''
  for (let at = 0; ; ) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return undefined
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    if (!(size >= 0)) throw new Failure('protocol', 'chunk without a size')

    at = lineEnd + 2
    if (size === 0) {
      const length = endOfTrailers(text, at)
      return length === undefined ? undefined : { body, length }
    }
    if (text.length < at + size + 2) return undefined
    body += text.slice(at, at + size)
    at += size + 2
  }
}

function endOfTrailers(text: string, start: number): number | undefined {
  if (text.startsWith('\r\n', start)) return start + 2
  const end = text.indexOf('\r\n\r\n', start)
  return end < 0 ? undefined : end + 4
}
