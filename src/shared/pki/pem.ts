/**
 * Strict PEM text (RFC 7468): 64 characters a line, nothing but PEM blocks and empty lines between
 * them.
 */

export interface PemBlock {
  label: string
  der: Buffer
}

/** An error with its message and line. */
export class PemError extends Error {
  constructor(message: string, line: number) {
    super(`${message} (line ${line})`)
    this.name = 'PemError'
  }
}

const BEGIN = /^-----BEGIN ([A-Z0-9](?:[A-Z0-9 ]*[A-Z0-9])?)-----$/
const LINE_CHARACTERS = 64

/** One block, with a line end behind it. */
export function encodePem(label: string, der: Buffer): string {
  const base64 = der.toString('base64')
  let lines = ''
  for (let at = 0; at < base64.length; at += LINE_CHARACTERS) lines += `${base64.slice(at, at + LINE_CHARACTERS)}\n`
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`
}

/**
 * All blocks of a text, in order, perhaps none; lines end in LF or CRLF.
 * Refused: text outside blocks, headers, non-canonical base64, and lines not of 64 characters (the
 * last may be shorter).
 * @throws PemError
 */
export function decodePem(text: string): PemBlock[] {
  const lines = text.split(/\r?\n/)
  const blocks: PemBlock[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!
    if (line === '') continue
    const label = BEGIN.exec(line)?.[1]
    if (label === undefined) throw new PemError('expected -----BEGIN …-----', at + 1)
    const end = lines.indexOf(`-----END ${label}-----`, at + 1)
    if (end === -1) throw new PemError(`${label} has no END line`, at + 1)
    blocks.push({ label, der: decodeBody(lines.slice(at + 1, end), at + 2) })
    at = end
  }
  return blocks
}

function decodeBody(lines: readonly string[], firstLine: number): Buffer {
  for (const [index, line] of lines.entries()) {
    const last = index === lines.length - 1
    if (line.length > LINE_CHARACTERS || line.length === 0 || (!last && line.length !== LINE_CHARACTERS)) {
      throw new PemError('a line of base64 must have 64 characters', firstLine + index)
    }
  }
  const base64 = lines.join('')
  const der = Buffer.from(base64, 'base64')
  // Node skips invalid characters and ignores stray bits at the end; encoding again reveals both.
  if (der.length === 0 || der.toString('base64') !== base64) throw new PemError('not canonical base64', firstLine)
  return der
}
