/** The tree for production holds what the programs load, and nothing for developers. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { foldersOf, type Lock } from '../../deploy/build/packages.ts'
import { writeTree } from '../../deploy/build/tree.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder()
const [whole, signer] = [path.join(folder, 'whole'), path.join(folder, 'signer')]

before(() => Promise.all([writeTree(whole), writeTree(signer, 'signer')]))

const filesOf = (tree: string) => readdirSync(tree, { recursive: true, encoding: 'utf8' })
const megabytes = (tree: string) =>
  filesOf(tree).reduce((sum, name) => sum + statSync(path.join(tree, name)).size, 0) / 2 ** 20

describe('the tree for production', () => {
  test('both programs start from it, elsewhere than in the checkout', async () => {
    for (const [tree, program] of [
      [whole, 'src/cli/main.js'],
      [whole, 'signer/start.cjs'],
      [signer, 'signer/start.cjs'],
    ] as const) {
      const { code, output } = await runCommand(process.execPath, [path.join(tree, 'dist', program), '--version'])
      assert.equal(code, 0, output)
      assert.match(output, /^chancery/)
    }
  })

  test('PKCS #11 is in both', () => {
    for (const tree of [whole, signer])
      assert.ok(existsSync(path.join(tree, 'node_modules/pkcs11js/build/Release/pkcs11.node')))
  })

  test('it has the binary of the HTTP library for this platform, and for Node.js 20 and 24', () => {
    const names = readdirSync(path.join(whole, 'node_modules/uWebSockets.js')).filter((name) => name.endsWith('.node'))
    const here = `uws_${process.platform}_${process.arch}`
    assert.deepEqual(names.sort(), [`${here}_115.node`, `${here}_137.node`])
  })

  test('compilers, tests, and the types and maps of packages are not in it', () => {
    const strange = filesOf(whole).filter((name) =>
      /^compiled|typescript|biome|esbuild|\.d\.ts$|node_modules\/.*\.map$/.test(name),
    )
    assert.deepEqual(strange, [])
  })

  test('what a bundle loads by name is there', () => {
    const text = filesOf(path.join(whole, 'dist')).filter((name) => /\.c?js$/.test(name))
    const loaded = text.flatMap((name) => [
      ...readFileSync(path.join(whole, 'dist', name), 'utf8').matchAll(
        /^import [^;]*?"([^"./][^"]*)";|\bimport\("([^"./][^"]*)"\)/gm,
      ),
    ])
    const names = new Set(loaded.map(([, named = '', late = named]) => late).filter((name) => !isBuiltin(name)))
    assert.ok(names.has('piscina') && names.has('@simplewebauthn/server'), [...names].join())
    for (const name of ['@peculiar/x509', 'reflect-metadata']) names.delete(name) // of development
    const loads = `for (const name of ${JSON.stringify([...names])}) await import(name)`
    execFileSync(process.execPath, ['--input-type=module', '-e', loads], { cwd: whole })
  })

  test('a licence comes with each package that has one', () => {
    const root = path.resolve(import.meta.dirname, '../../..')
    const licences = (top: string) => filesOf(top).filter((name) => /^node_modules\/.*\/licen[cs]e[^/]*$/i.test(name))
    const shipped = new Set(licences(whole))
    const packages = new Set(filesOf(whole).filter((name) => /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(name)))
    const missing = licences(root).filter((name) => packages.has(path.dirname(name)) && !shipped.has(name))
    assert.deepEqual(missing, [])
  })

  test('both are smaller than 60 MB', () => assert.ok(megabytes(whole) + megabytes(signer) < 60))
})

test('a package is looked for in the folder of the one that needs it first, then above', () => {
  const entry = { version: '1.0.0' }
  const lock: Lock = {
    packages: {
      '': entry,
      'node_modules/a': { ...entry, dependencies: { b: '1', c: '1' } },
      'node_modules/a/node_modules/b': { ...entry, dependencies: { c: '1', a: '1' } },
      'node_modules/b': entry,
      'node_modules/c': entry,
      'node_modules/d': entry,
    },
  }
  assert.deepEqual(foldersOf(lock, ['a']), ['node_modules/a', 'node_modules/a/node_modules/b', 'node_modules/c'])
})
