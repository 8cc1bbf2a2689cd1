/**
 * Text of rows and columns: CSV (RFC 4180), or with tabs as `mysql --batch` writes it. A field may span lines.
 */

import { createReadStream } from 'node:fs'
import { UnusableSource } from '../model.ts'

/** A certificate takes a few thousand characters. */
const MOST_FIELD_CHARACTERS = 1_000_000

/** The rows of a file; the first one names its columns. */
export async function* readDelimited(file: string): AsyncGenerator<string[]> {
  let parser: DelimitedParser | undefined
  for await (const chunk of createReadStream(file, 'utf8') as AsyncIterable<string>) {
    parser ??= new DelimitedParser(separatorOf(chunk))
    yield* parser.push(chunk)
  }
  if (parser) yield* parser.end()
}

/** The names of columns have no tab, no comma and no semicolon in them. */
function separatorOf(start: string): string {
  const header = start.split(/[\r\n]/, 1)[0] ?? ''
  return ['\t', ';', ','].find((one) => header.includes(one)) ?? ','
}

class DelimitedParser {
  readonly #separator: string
  #fields: string[] = []
  #field = ''
  #isQuoted = false
  /** A quote inside of quotes is the end, or the first of two that mean one. */
  #sawQuote = false
  #row = 1

  constructor(separator: string) {
    this.#separator = separator
  }

  *push(text: string): Generator<string[]> {
    for (const character of text) {
      if (this.#isQuoted && !this.#sawQuote) {
        if (character === '"') this.#sawQuote = true
        else this.#add(character)
      } else if (character === '"' && this.#sawQuote) {
        this.#sawQuote = false
        this.#add('"')
      } else if (character === '"' && this.#field === '') this.#isQuoted = true
      else {
        this.#isQuoted = this.#sawQuote = false
        if (character === this.#separator) this.#endField()
        else if (character === '\n') yield this.#endRow()
        else if (character !== '\r') this.#add(character)
      }
    }
  }

  *end(): Generator<string[]> {
    if (this.#isQuoted && !this.#sawQuote) throw new UnusableSource(`row ${this.#row}: a quoted field has no end`)
    if (this.#field !== '' || this.#fields.length > 0) yield this.#endRow()
  }

  #add(character: string): void {
    if (this.#field.length >= MOST_FIELD_CHARACTERS) throw new UnusableSource(`row ${this.#row}: a field is too long`)
    this.#field += character
  }

  #endField(): void {
    // MySQL writes NULL for no value, and a line break as two characters.
    const value = this.#separator === '\t' ? this.#field.replaceAll('\\n', '\n') : this.#field
    this.#fields.push(value === 'NULL' ? '' : value)
    this.#field = ''
  }

  #endRow(): string[] {
    this.#endField()
    const row = this.#fields
    this.#fields = []
    this.#row++
    return row
  }
}
