/** One word of a POSIX shell's command line, for commands that are printed to be copied. */

/** @returns the text itself where that is safe, else in single quotes, in which nothing but the quote is special. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
