/** One table says where the files of an installation are, and who may read them; everything else takes them from there. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { filledIn } from '../../../deploy/build/places.ts'
import { PATHS, PLACES, type Place } from '../../../src/installation/places.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const known = new Set<string>(Object.values(PATHS))

/** Paths of an installation that a text names, without those below a folder that a program makes by itself. */
const pathsIn = (text: string) => [...text.matchAll(/\/(?:etc|var\/lib|run)\/chancery[\w./-]*\b/g)].map(([one]) => one)

describe('places', () => {
  test('no two places have one path, and a secret place is closed to all others', () => {
    assert.equal(known.size, Object.keys(PLACES).length)
    for (const [name, { path: file, mode }] of Object.entries(PLACES))
      if (/key|secret|pin$|env$|passphrase/.test(path.basename(file))) assert.equal(mode & 0o007, 0, name)
  })

  for (const [unit, state] of [
    ['chancery.service', PLACES.serviceState],
    ['chancery-signer.service', PLACES.signerState],
  ] as const)
    test(`${unit} names places of the table, and makes its folders as they are there`, () => {
      const text = read(`deploy/systemd/${unit}`)
      assert.deepEqual(
        pathsIn(text).filter((one) => !known.has(one)),
        [],
      )
      assert.deepEqual(foldersOf(text, 'State', '/var/lib'), rightsOf(state))
      if (unit === 'chancery-signer.service')
        assert.deepEqual(foldersOf(text, 'Runtime', '/run'), rightsOf(PLACES.signerRun))
    })

  test('the scripts of the packages name places, and no paths', () => {
    const folder = 'deploy/debian/programs'
    for (const name of readdirSync(path.join(ROOT, folder)).filter((one) => /inst$|rm$|dirs$/.test(one))) {
      const text = read(`${folder}/${name}`)
      assert.deepEqual(pathsIn(text), [], name)
      assert.deepEqual(
        pathsIn(filledIn(text)).filter((one) => !known.has(one)),
        [],
        name,
      )
    }
    assert.throws(() => filledIn('rm @nothing@'), /@nothing@ is no place/)
  })
})

const rightsOf = ({ path: folder, mode, owner }: Place) => ({ folder, mode, owner })

/** The folder that systemd makes for a unit, such as StateDirectory=. */
function foldersOf(unit: string, kind: 'State' | 'Runtime', parent: string) {
  const value = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
  return {
    folder: `${parent}/${value(`${kind}Directory`)}`,
    mode: Number.parseInt(value(`${kind}DirectoryMode`), 8),
    owner: value('User'),
  }
}

/** Folder → how many lines have a literal of their own. The numbers may only shrink. */
const PATHS_ELSEWHERE: Readonly<Record<string, number>> = { signer: 6 }
const MODES_ELSEWHERE: Readonly<Record<string, number>> = {
  'deploy/build': 3,
  signer: 21,
  'src/ca': 4,
  'src/cli': 5,
  'src/config': 2,
  'src/dev': 18,
  'src/events': 2,
  'src/services': 9,
  'src/settings': 2,
  'src/setup': 1,
  'src/shared': 2,
}

describe('literals outside src/installation', () => {
  for (const [what, pattern, elsewhere] of [
    ['path of an installation', /['"`][^'"`\n]*\/(?:etc|var\/lib|run)\/chancery/g, PATHS_ELSEWHERE],
    ['mode of a file', /\b0o[0-7]{3}\b/g, MODES_ELSEWHERE],
  ] as const)
    test(`a ${what} stands in the table only`, () => {
      const found = literals(pattern)
      for (const [folder, files] of found)
        assert.ok(files.length <= (elsewhere[folder] ?? 0), `${folder} has ${files.length}: ${files.join(', ')}`)
    })
})

/** @returns folder → its files, one for each line with such a literal outside comments */
function literals(pattern: RegExp): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const tree of ['src', 'signer', 'workers', 'deploy/build'])
    for (const name of readdirSync(path.join(ROOT, tree), { recursive: true, encoding: 'utf8' }).sort()) {
      const file = path.posix.join(tree, name)
      if (!/\.(?:tsx?|mjs)$/.test(name) || file.startsWith('src/installation/')) continue
      const folder = tree === 'src' ? `src/${name.split('/')[0]}` : tree
      const code = read(file).replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
      const lines = code.split('\n').filter((line) => line.search(pattern) >= 0)
      found.set(folder, [...(found.get(folder) ?? []), ...lines.map(() => file)])
    }
  return found
}
