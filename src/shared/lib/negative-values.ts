/** Negative numbers on a command line, which the parser would take for flags. */

/** `--port -1` becomes `--port=-1`, so that the check of the port can report the value. */
export function joinNegativeValues(words: readonly string[]): string[] {
  const joined: string[] = []
  for (const word of words) {
    const flag = joined.at(-1)
    if (/^-\d/.test(word) && flag !== undefined && /^--?[a-z][^=]*$/i.test(flag))
      joined[joined.length - 1] = `${flag}=${word}`
    else joined.push(word)
  }
  return joined
}
