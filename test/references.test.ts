/** References in code, tests and documents lead to something that a reader of the repository can open. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')
const READ = /\.(ts|cts|mjs|md|sql|yaml|service|conf)$/
const files = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
  .split('\n')
  .filter((file) => READ.test(file) && file !== 'CHANGELOG.md' && existsSync(path.join(ROOT, file)))
  .map((file) => ({ file, text: readFileSync(path.join(ROOT, file), 'utf8') }))

/** Each place where `pattern` matches, with what it captured. */
function matches(pattern: RegExp): { file: string; found: string }[] {
  return files.flatMap(({ file, text }) =>
    [...text.matchAll(pattern)].map(([all, group]) => ({ file, found: group ?? all })),
  )
}

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

/** @param target relative to the document; empty is the document itself */
function isThere(from: string, target: string, heading: string | undefined): boolean {
  const name = target === '' ? from : path.join(path.dirname(from), target)
  if (heading === undefined) return existsSync(path.join(ROOT, name))
  const { text = '' } = files.find(({ file }) => file === name) ?? {}
  return [...text.matchAll(/^#+ (.*)$/gm)].some(([, title = '']) => anchorOf(title) === heading)
}

describe('a reference', () => {
  test('to a decision names a file of docs/decisions', () => {
    const unknown = matches(/docs\/decisions\/([a-z0-9-]+\.md)/g).filter(
      ({ found }) => !existsSync(path.join(ROOT, 'docs/decisions', found)),
    )
    assert.deepEqual(unknown, [])
  })

  test('from a document to a file or heading finds it', () => {
    const missing = files
      .filter(({ file }) => file.endsWith('.md'))
      .flatMap(({ file, text }) =>
        [...text.matchAll(/\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)/g)]
          .filter(([, target = '', heading]) => !isThere(file, target, heading))
          .map(([link]) => `${file}: ${link}`),
      )
    assert.deepEqual(missing, [])
  })

  test('is never a number of a list, nor a document that is not here', () => {
    // Spelled apart, so that this file does not find itself.
    const foreign = [`\\bdecisions?,? ${'\\d'}`, `\\bdoc ${'[12]'}\\b`, `\\(${'m'}\\)`].join('|')
    assert.deepEqual(matches(new RegExp(foreign, 'g')), [])
  })

  test('from the list of decisions reaches every one of them', () => {
    const list = readFileSync(path.join(ROOT, 'docs/decisions/README.md'), 'utf8')
    const missing = files
      .map(({ file }) => /^docs\/decisions\/([^/]+\.md)$/.exec(file)?.[1])
      .filter((name) => name !== undefined && name !== 'README.md' && !list.includes(`(${name})`))
    assert.deepEqual(missing, [])
  })
})
