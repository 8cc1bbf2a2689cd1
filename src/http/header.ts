/** Response headers as pairs, and as the text that goes on the wire. */

export type Header = readonly [name: string, value: string]

/** Headers checked and joined once, for many replies that differ in other headers. At least one. */
export class FixedHeaders {
  readonly firstName: string | undefined
  /** As `headerBlock`. */
  readonly block: string
  /** All of them as lines that follow other headers. */
  readonly lines: string

  /** @throws TypeError for a header that would split the response */
  constructor(headers: readonly Header[]) {
    this.firstName = headers[0]?.[0]
    this.block = headerBlock(headers)
    this.lines = `\r\n${this.firstName}: ${this.block}`
  }
}

/**
 * The first header's value, followed by all other headers as they go on the wire.
 * @throws TypeError for a header that would split the response
 */
export function headerBlock(headers: readonly Header[]): string {
  let block = ''
  for (let at = 0; at < headers.length; at++) {
    const [name, value] = headers[at]!
    if (breaksHeader(name) || breaksHeader(value))
      throw new TypeError(`header ${JSON.stringify(name)} has a line break`)
    block += at === 0 ? value : `\r\n${name}: ${value}`
  }
  return block
}

/**
 * CR, LF and NUL would let a value continue as another header or response.
 * A loop, because ten searches by regular expression cost 2 µs.
 */
function breaksHeader(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code <= 13 && (code === 13 || code === 10 || code === 0)) return true
  }
  return false
}
