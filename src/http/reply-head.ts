/**
 * The head of a reply as text, checked before its first byte is written.
 *
 * Some header values come from requests (an echoed request id, a Location), and the library writes
 * them as given. A line break in one would let a client write headers of its own.
 */
import { STATUS_CODES } from 'node:http'
import { headerBlock } from './header.ts'
import type { BodyRest, HttpReply } from './message.ts'

/** Status lines by code; a code outside the registry is sent with an empty reason. */
const STATUS_LINES: readonly (string | undefined)[] = Array.from({ length: 600 }, (_, status) =>
  status < 200 ? undefined : `${status} ${STATUS_CODES[status] ?? ''}`,
)

export interface ReplyHead {
  /** Code and reason. */
  status: string
  firstName: string | undefined
  /** As `headerBlock`. */
  block: string
  body: string | Buffer
  closes: boolean
  rest: BodyRest | undefined
}

/**
 * All headers as one value for the first name: one call into the library instead of one per header.
 *
 * @throws TypeError for an unknown status, a missing body, or a line break in a header
 */
export function headOf(reply: HttpReply): ReplyHead {
  const status = STATUS_LINES[reply.status]
  if (status === undefined) throw new TypeError(`no such HTTP status: ${reply.status}`)
  const { headers, fixedHeaders, body, rest } = reply
  if (typeof body !== 'string' && !Buffer.isBuffer(body)) throw new TypeError('the reply has no body')
  const closes = reply.closes === true
  if (headers.length === 0)
    return { status, firstName: fixedHeaders?.firstName, block: fixedHeaders?.block ?? '', body, closes, rest }
  const block = headerBlock(headers)
  const all = fixedHeaders ? block + fixedHeaders.lines : block
  return { status, firstName: headers[0]?.[0], block: all, body, closes, rest }
}
