/** A small file that only its neighbour imports is a part of that neighbour: a reader would open both for one story. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { filesBelow, importsBelow, isRelative, TREES, targetOf, textOf, withoutComments } from '../support/sources.ts'
import { assertOnlyListed } from './exceptions.ts'

const FEW_LINES = 60
/** In a hundred files of the service. Each is read with its importer only, so a low share means fewer files for a story. */
const MOST_WITH_ONE_IMPORTER = 25

const linesOf = (file: string) => textOf(file).split('\n').length - 1
const folderOf = (file: string) => file.slice(0, file.lastIndexOf('/'))

describe('files', () => {
  const importers = new Map<string, Set<string>>()
  for (const one of TREES.flatMap(importsBelow).filter(isRelative)) {
    const target = targetOf(one)
    importers.set(target, (importers.get(target) ?? new Set()).add(one.file))
  }
  const withOneImporter = [...importers].flatMap(([file, [only = '', ...more]]) =>
    more.length > 0 ? [] : { file, only },
  )

  test(`with fewer than ${FEW_LINES} lines are imported by two files, from another folder, or when they are needed`, () => {
    const small = withOneImporter
      .filter(({ file, only }) => folderOf(file) === folderOf(only) && linesOf(file) < FEW_LINES)
      .filter(({ file, only }) => !isLoadedLater(file, only))
      .map(({ file, only }) => ({ file, says: `${file} (${linesOf(file)} lines) belongs into ${only}` }))
    assertOnlyListed('small-files', small)
  })

  test(`of the service have one importer in at most ${MOST_WITH_ONE_IMPORTER} of 100 cases`, () => {
    const isService = (file: string) => /^(?:src|signer|workers)\//.test(file)
    const all = ['src', 'signer', 'workers'].flatMap(filesBelow).length
    const share = (100 * withOneImporter.filter(({ file }) => isService(file)).length) / all
    assert.ok(share <= MOST_WITH_ONE_IMPORTER, `${share.toFixed(1)} of 100 files have one importer`)
  })
})

/** A program loads the parts of a command when it knows the command; a thread is loaded by its name. */
function isLoadedLater(file: string, importer: string): boolean {
  const name = file.slice(file.lastIndexOf('/') + 1)
  const text = withoutComments(textOf(importer))
  return text.includes(`import('./${name}')`) || text.includes(`new URL('./${name}'`)
}
