/**
 * The head of a reply as text, checked before its first byte is written.
 *
 * Header values come from requests now and then (an echoed request id, a Location), and the socket library writes what
 * it is given: a line break in one of them would end the head and begin whatever its author likes.
 */
import { STATUS_CODES } from 'node:http'
import type { HttpReply } from './message.ts'

/** Status lines by code; a code outside the registry is sent with an empty reason. */
const STATUS_LINES: readonly (string | undefined)[] = Array.from({ length: 600 }, (_, status) =>
  status < 200 ? undefined : `${status} ${STATUS_CODES[status] ?? ''}`,
)

export interface ReplyHead {
  /** Code and reason. */
  status: string
  firstName: string | undefined
  /** The first header's value, and all other headers behind it as they go on the wire. */
  block: string
  body: string | Buffer
  closes: boolean
}

/**
 * All headers as one value for the first name: one call into the library instead of one per header.
 *
 * @throws TypeError when the reply is none: unknown status, body missing, or a header that would split the response.
 */
export function headOf(reply: HttpReply): ReplyHead {
  const status = STATUS_LINES[reply.status]
  if (status === undefined) throw new TypeError(`no such HTTP status: ${reply.status}`)
  const { headers, body } = reply
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) throw new TypeError('the reply has no body')
  let block = ''
  for (let at = 0; at < headers.length; at++) {
    const [name, value] = headers[at]!
    if (breaksHeader(name) || breaksHeader(value))
      throw new TypeError(`header ${JSON.stringify(name)} has a line break`)
    block += at === 0 ? value : `\r\n${name}: ${value}`
  }
  return { status, firstName: headers[0]?.[0], block, body, closes: reply.closes === true }
}

/** CR, LF and NUL let a value continue as another header or another response. A loop, because ten searches by expression cost 2 µs. */
function breaksHeader(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code <= 13 && (code === 13 || code === 10 || code === 0)) return true
  }
  return false
}
