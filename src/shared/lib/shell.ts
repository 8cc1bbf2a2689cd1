/** Quotes one word for a POSIX shell, in commands that are printed for copying. */

/** @returns the text unchanged where that is safe, else in single quotes */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
