/** The HTTP server's library is compiled per Node.js and C library; whether it runs here is asked before anything starts. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { describe, test } from 'node:test'
import { LIBRARY_HASHES, requireUws } from '../../src/http/start-checks.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('uWebSockets.js', () => {
  const folder = temporaryFolder()

  const binary = (name: string) => `uws_${process.platform}_${process.arch}_${name}.node`

  /** The library as it is installed where this Node.js is not among those it was compiled for. */
  function withoutBinaries(): string {
    const library = path.join(folder, 'uws.cjs')
    copyFileSync(createRequire(import.meta.url).resolve('uWebSockets.js'), library)
    return library
  }

  test('that has a binary for this Node.js and this C library passes', async () => {
    await requireUws()
  })

  test('without a binary for this Node.js is refused in one sentence that names both', async () => {
    const library = withoutBinaries()
    await assert.rejects(requireUws(library), ({ message }: Error) => {
      assert.ok(!message.includes('\n'), message)
      assert.ok(message.includes(`no binary for Node.js ${process.versions.node} with `), message)
      assert.match(message, /README\.md .*\(Cannot find module/)
      return true
    })
  })

  test('whose binary does not load here is refused with the reason', async () => {
    const library = withoutBinaries()
    const text = 'of another C library'
    writeFileSync(path.join(folder, binary(process.versions.modules)), text)
    const trusted = createHash('sha256').update(text).digest('hex')
    await assert.rejects(requireUws(library, trusted), /has no binary for .*\(.*(invalid ELF header|file too short)/)
  })

  test('whose binary has other bytes than the listed ones is not loaded, unless its hash is trusted', async () => {
    const library = withoutBinaries()
    const name = binary(process.versions.modules)
    const installed = path.join(path.dirname(createRequire(import.meta.url).resolve('uWebSockets.js')), name)
    const changed = Buffer.concat([readFileSync(installed), Buffer.from([0])])
    writeFileSync(path.join(folder, name), changed)
    const hash = createHash('sha256').update(changed).digest('hex')
    await assert.rejects(requireUws(library), ({ message }: Error) => {
      assert.ok(message.startsWith(`${name} of uWebSockets.js`) && message.includes(hash), message)
      return true
    })
    await requireUws(library, hash)
  })

  test('has a listed hash for each Node.js of the table in README.md, on both processors', () => {
    const names = ['x64', 'arm64'].flatMap((arch) => [115, 127, 137, 141].map((abi) => `uws_linux_${arch}_${abi}.node`))
    assert.deepEqual(Object.keys(LIBRARY_HASHES), names)
  })
})
