/**
 * Each block of commands on the pages for operators is typed by a test, or has a sentence that says why it was not run.
 * A page names its tests in comments, and a block that they type has a name.
 */

import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { allBlocksOf, isFile } from '../support/page-blocks.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const OPERATIONS = 'docs/operations'
const PAGES = [
  'README.md',
  'docs/clients.md',
  ...readdirSync(path.join(ROOT, OPERATIONS))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${OPERATIONS}/${name}`),
]
const SHELLS = ['sh', 'bash', 'console', 'powershell']
const testsOf = (page: string) => [...read(page).matchAll(/^<!-- run: (\S+) -->$/gm)].map(([, name]) => name as string)

/** A test and what it is made of, as far as it names blocks. */
function sourcesOf(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file) || !existsSync(path.join(ROOT, file))) return []
  seen.add(file)
  const text = read(file)
  const others = [...text.matchAll(/from '(\.[^']+)'|new URL\('([^']+)\.js'/g)].map(([, from, program]) =>
    path.join(path.dirname(file), from ?? `${program}.ts`),
  )
  return [text, ...others.filter((name) => name.startsWith('test/')).flatMap((name) => sourcesOf(name, seen))]
}
/** The page by its path or, in a test of several pages, by its name. */
const types = (sources: string, page: string, block: string) =>
  [page, path.basename(page, '.md')].some((name) => sources.includes(`'${name}'`)) && sources.includes(`'${block}'`)

describe('the blocks of commands', () => {
  for (const page of PAGES) {
    const blocks = allBlocksOf(page).filter((block) => SHELLS.includes(block.language) && !isFile(block))
    if (blocks.length === 0) continue
    test(`of ${page} are typed by a test, or the page says why not`, () => {
      const sources = testsOf(page).map((file) => sourcesOf(file).join('\n'))
      for (const { name, text, said } of blocks) {
        const isTyped = name !== '' && sources.some((one) => types(one, page, name))
        const isExcused = /\bnot run\b|\btried by hand\b/i.test(said)
        assert.ok(isTyped || isExcused, `${name} ${text}`)
      }
    })

    test(`of ${page} have names of their own`, () => {
      const names = blocks.map(({ name }) => name).filter((name) => name !== '')
      assert.equal(new Set(names).size, names.length)
    })
  }

  test('name tests that there are', () => {
    for (const page of PAGES) for (const file of testsOf(page)) assert.ok(existsSync(path.join(ROOT, file)), file)
  })
})
