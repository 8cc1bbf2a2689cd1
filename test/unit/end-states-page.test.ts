/** The table of docs/decisions/end-states.md has each word of an end that a program can say: a new one needs a row. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'

/** Seen from the compiled file. */
const ROOT = path.resolve(import.meta.dirname, '../../..')
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')
const page = read('docs/decisions/end-states.md')

/** The checks of the doctor are on a page of their own, with what each looks at (docs/operations/doctor.md). */
const PLACES = [
  'src/cli',
  'src/setup',
  'src/import',
  'src/main',
  'src/dev',
  'src/console',
  'src/events/templates',
  'signer',
  'deploy/debian',
]
const END =
  /\b(?:ready|done already|up to date|works again|everything is|ends well)\b|\b(?:is|are) (?:NOT )?(?:valid|whole|current|complete|well|off|not stopped)\b|\bnothing (?:was|is|to do|that)\b|\bhas taken the\b|\bagree with\b|^(?:done|checked|no matches)$|\bintact\b|^published\b|^Done /i

/** A state of an object, of which probes.md says what it comes from. */
const STATE = /^(?:ready|ok)$/

/** Rows of the table below a heading: their cells, without backquotes. */
const table = (heading: string): string[][] =>
  (page.split(/^## /m).find((text) => text.startsWith(heading)) ?? '')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .slice(2, -2)
        .split(' | ')
        .map((cell) => cell.replaceAll('`', '')),
    )

/** Literals of code, without comments, and what a component shows as it stands; of a script or template each line. */
function textsOf(file: string): string[] {
  const text = read(file)
  if (!/\.(?:c?ts|tsx)$/.test(file)) return text.split('\n').filter((line) => !line.startsWith('#'))
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
  const literals = /'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g
  const shown = file.endsWith('.tsx') ? [...code.matchAll(/[>}]([^<>{}=;()]+)(?=[<{])|="([^"]*)"/g)] : []
  return [...code.matchAll(literals), ...shown].map(([, one, other]) => (one ?? other ?? '').replaceAll(/\s+/g, ' '))
}

const found = PLACES.flatMap((place) =>
  readdirSync(path.join(ROOT, place), { recursive: true, encoding: 'utf8', withFileTypes: true })
    .filter((entry) => entry.isFile())
    .filter((entry) => !entry.name.endsWith('.mjs'))
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)))
    .flatMap((file) => textsOf(file).flatMap((text) => (END.test(text) && !STATE.test(text) ? [{ file, text }] : []))),
)

describe('the page of end states', () => {
  const rows = table('What each comes from')
  const console_ = table('In the console')
  const others = table('No end states')

  test('has each sentence that sounds like an end, in the file that says it', () => {
    const known = [...rows, ...console_, ...others]
    const missing = found.filter(
      ({ file, text }) =>
        !known.some(([said = '', where = '']) => where.split(', ').includes(file) && text.includes(said)),
    )
    assert.ok(found.length > 40, 'the sentences are found')
    assert.deepEqual(
      missing.map(({ file, text }) => `${file}: ${text}`),
      [],
    )
  })

  test('names no sentence that its file does not have', () => {
    const gone = [...rows, ...console_, ...others].flatMap(([said = '', where = '']) =>
      where.split(', ').flatMap((file) => (read(file).includes(said) ? [] : [`${file}: ${said}`])),
    )
    assert.deepEqual(gone, [])
  })

  test('says of each what was looked at, when, and what was not', () => {
    assert.ok(console_.length > 10)
    for (const row of [...rows, ...console_]) {
      assert.equal(row.length, 5, row.join(' | '))
      for (const cell of row) assert.notEqual(cell.trim(), '', row[0])
    }
  })
})
