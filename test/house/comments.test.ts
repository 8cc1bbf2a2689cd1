/** Comments are whole sentences that a reader takes in once (`comments.ts` says which are not). */

import { describe, test } from 'node:test'
import { filesBelow, TREES, textOf } from '../support/sources.ts'
import { commentsOf, knotOf } from './comments.ts'
import { assertOnlyListed } from './exceptions.ts'

const MOST_IN_HUNDRED = 4

/** A folder of the code map; of `src/shared` each part by itself. */
const folderOf = (file: string) => /^(?:src\/shared\/[^/.]+|src\/[^/]+|[^/]+)(?=\/)/.exec(file)?.[0] ?? file

describe('comments', () => {
  const comments = [...TREES, 'test/support', 'test/house']
    .flatMap(filesBelow)
    .flatMap((file) => commentsOf(textOf(file)).map((comment) => ({ ...comment, file, knot: knotOf(comment) })))
  const knotted = comments
    .filter(({ knot }) => knot !== undefined)
    .map(({ file, line, knot, paragraphs }) => ({ file, says: `${file}:${line}: ${knot}: ${paragraphs.join(' ')}` }))

  test('a file has no more knotted comments than its exception says, and a new file has none', () => {
    assertOnlyListed('knotted-comments', knotted)
  })

  test(`a folder has at most ${MOST_IN_HUNDRED} knotted comments in a hundred`, () => {
    const tooMany = [...new Set(comments.map(({ file }) => folderOf(file)))].flatMap((folder) => {
      const all = comments.filter(({ file }) => folderOf(file) === folder).length
      const most = Math.ceil((all * MOST_IN_HUNDRED) / 100)
      const ofFolder = knotted.filter(({ file }) => folderOf(file) === folder)
      return ofFolder.slice(most).map(({ says }) => ({ file: folder, says }))
    })
    assertOnlyListed('knotted-folders', tooMany)
  })
})
