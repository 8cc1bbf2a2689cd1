/** The words behind `npm test --`. */

import path from 'node:path'

export interface RunOptions {
  words: string[]
  /** The ring `release` alone, with every other one, or only where a word names its file. */
  release: 'alone' | 'too' | 'named'
  /** Prints the ledger. */
  times: boolean
  /** Writes it to the repository. */
  keep: boolean
  /** Only what imports the changed files: those since this commit, or those that are in no commit (`HEAD`). */
  changedSince: string | undefined
  /** All of that, however long it takes. */
  far: boolean
}

/** @throws Error with a sentence for the person who typed them */
export function readOptions(args: readonly string[]): RunOptions {
  const options: RunOptions = {
    words: [],
    release: 'named',
    times: false,
    keep: false,
    changedSince: undefined,
    far: false,
  }
  const rest = [...args]
  for (let word = rest.shift(); word !== undefined; word = rest.shift())
    if (word === '--release') options.release = 'alone'
    else if (word === '--all') options.release = 'too'
    else if (word === '--times') options.times = true
    else if (word === '--keep') options.keep = true
    else if (word === '--far') options.far = true
    else if (word === '--changed') options.changedSince = rest[0]?.startsWith('-') === false ? rest.shift() : 'HEAD'
    else if (word.startsWith('-')) throw new Error(`unknown option ${word}; npm test -- --help names them`)
    else options.words.push(word)
  if (options.changedSince !== undefined && options.words.length > 0)
    throw new Error('--changed chooses the files by itself')
  if (options.keep && (options.release !== 'too' || options.words.length > 0))
    throw new Error('--keep writes the ledger of all tests: npm test -- --all --keep')
  return options
}

/** A word chooses a file of the ring `release` by its name, and not by a folder, which has quick ones beside it. */
export function isNamed(file: string, words: readonly string[]): boolean {
  const name = path.basename(file).replace(/\.test\.[jt]s$/, '')
  return words.some((word) => {
    const own = path.basename(word.endsWith('/') ? '' : word).replace(/(?:\.test)?(?:\.[jt]s)?$/, '')
    return own !== '' && name.includes(own)
  })
}
