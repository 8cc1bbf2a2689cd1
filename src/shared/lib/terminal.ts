/** Text of strangers on a terminal. */

/** Controls of both sets but line break and tab, marks that change direction or show nothing. */
const STEERING = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu

/** Characters that steer a terminal become `\uXXXX`, so that JSON stays the same JSON. */
export function printable(text: string): string {
  return text.replaceAll(STEERING, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeUnit(character.charCodeAt(at))).join(''),
  )
}

const escapeUnit = (unit: number) => `\\u${unit.toString(16).padStart(4, '0')}`

/**
 * Quotes one word for a POSIX shell.
 * @returns the text unchanged where that is safe, else in single quotes
 */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
