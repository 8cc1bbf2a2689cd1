/** Secrets as editors, shells and containers leave them: with a line end behind, or a byte order mark before. */

const BYTE_ORDER_MARK = '\uFEFF'

export function withoutLineEnds(text: string): string {
  return (text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text).replace(/[\r\n]+$/, '')
}

/** Printable ASCII, as base64 and hexadecimal are. */
const IS_TEXT = /^[\x20-\x7e]*$/

/** The secret in a file. Random bytes stay as they are: one in 128 ends with a line end. */
export function secretIn(file: Buffer): Buffer {
  const text = withoutLineEnds(file.toString('utf8'))
  return IS_TEXT.test(text) ? Buffer.from(text) : file
}
