/** One thing has one word, which a reader of English finds in a dictionary with this meaning. */

import { describe, test } from 'node:test'
import { filesBelow, TREES, textOf } from '../support/sources.ts'
import { assertOnlyListed } from './exceptions.ts'

/** The word → how the wrong one is found. A database lacks something, but nothing lacks by itself. */
const WORDS: Readonly<Record<string, RegExp>> = {
  missing: /lacking|\b(?:what|something|decision) lack(?:s|ed)?\b/i,
  stalled: /\bstanding(?:jobs|_seconds)\b/i,
  'without an author': /\bonward\b/i,
}

describe('words', () => {
  test(`say ${Object.keys(WORDS).join(', ')} where another word was used before`, () => {
    const wrong = TREES.flatMap(filesBelow).flatMap((file) =>
      textOf(file)
        .split('\n')
        .flatMap((line, at) =>
          Object.entries(WORDS)
            .filter(([, pattern]) => pattern.test(line))
            .map(([word]) => ({ file, says: `${file}:${at + 1}: say “${word}” in ${line.trim()}` })),
        ),
    )
    assertOnlyListed('words', wrong)
  })
})
