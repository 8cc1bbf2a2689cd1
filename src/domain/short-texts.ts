/** Texts of others inside sentences: short, and on one line. Pure. */

const MAX_CHARACTERS = 100
const MAX_LISTED = 5

export function shortened(text: string): string {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text
}

/** Makes a client's text safe to repeat. */
export function shown(text: string): string {
  return shortened(text.replace(/[^\x20-\x7e]/g, '?'))
}

/** The first five, and how many there are beyond them. */
export function listed(texts: readonly string[]): string {
  const first = texts.slice(0, MAX_LISTED).map(shown).join(', ')
  return texts.length > MAX_LISTED ? `${first} and ${texts.length - MAX_LISTED} more` : first
}

/** The first `most` sentences; one more says how many there are beyond them. */
export function firstOf(sentences: readonly string[], most: number): string[] {
  return sentences.length > most ? [...sentences.slice(0, most), `and ${sentences.length - most} more`] : [...sentences]
}
