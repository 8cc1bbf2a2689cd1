/** A release is made of a commit, twice byte for byte equal, and says what is in it. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { packageName, productionFolders } from '../../deploy/build/packages.ts'
import { readLock } from '../../deploy/build/tree.ts'
import { runCommand } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const folder = temporaryFolder()
const [first, second] = [path.join(folder, 'first'), path.join(folder, 'second')] as const
const releaseIn = (clone: string) => path.join(clone, 'build/release')

/** What npm compiles where it installs; all other packages are as the registry has them, by their digests. */
const NATIVE = 'pkcs11js'

const within = (clone: string, script: string) => succeed('sh', ['-c', `cd "$1" && ${script}`, 'sh', clone])

/** A fresh clone, in which all that is compiled is compiled again. @param packages those of another clone, for npm's part */
async function makeRelease(clone: string, packages?: string): Promise<void> {
  await succeed('git', ['clone', '--quiet', '--no-hardlinks', ROOT, clone])
  if (packages !== undefined) {
    await succeed('cp', ['-a', path.join(packages, 'node_modules'), clone])
    rmSync(path.join(clone, 'node_modules', NATIVE, 'build'), { recursive: true })
    await within(clone, `npm_config_nodedir=${path.resolve(process.execPath, '../..')} npm rebuild ${NATIVE}`)
  }
  await within(clone, 'npm run package -- release build/release')
}

async function succeed(program: string, words: string[]): Promise<string> {
  const { code, output } = await runCommand(program, words)
  assert.equal(code, 0, output)
  return output
}

const digest = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex')

describe('a release', () => {
  before(async () => {
    await makeRelease(first)
    await makeRelease(second, first)
  })

  test('is the same from two clones, byte for byte', () => {
    const digests = (clone: string) =>
      readdirSync(releaseIn(clone)).map((name) => [name, digest(path.join(releaseIn(clone), name))])
    assert.equal(digests(first).length, 5)
    assert.deepEqual(digests(first), digests(second))
  })

  test('has checksums that sha256sum accepts', async () => {
    await within(releaseIn(first), 'sha256sum --check --strict SHA256SUMS')
  })

  test('runs where it is unpacked', async () => {
    const archive = readdirSync(releaseIn(first)).find((name) =>
      name.endsWith(`${process.platform}-${process.arch}.tar.gz`),
    )!
    await succeed('tar', ['-xzf', path.join(releaseIn(first), archive), '-C', folder])
    const top = path.join(folder, archive.replace(`-${process.platform}-${process.arch}.tar.gz`, ''))
    assert.match(
      await succeed(process.execPath, [path.join(top, 'dist/src/cli/main.js'), '--version']),
      /^chancery, \d/,
    )
    assert.match(
      await succeed(process.execPath, [path.join(top, 'dist/signer/start.cjs'), '--version']),
      /^chancery-signer, \d/,
    )
  })

  test('lists each package that it contains, with version, hash and licence', () => {
    const name = readdirSync(releaseIn(first)).find((file) => file.endsWith('.cdx.json'))!
    const bom = JSON.parse(readFileSync(path.join(releaseIn(first), name), 'utf8')) as {
      bomFormat: string
      components: { name: string; version: string; hashes?: { content: string }[]; licenses?: object[] }[]
    }
    assert.equal(bom.bomFormat, 'CycloneDX')
    const lock = readLock()
    const shipped = productionFolders(lock).filter((one) => existsSync(path.join(ROOT, one)))
    const listed = new Map(bom.components.map((one) => [`${one.name}@${one.version}`, one]))
    for (const one of shipped) {
      const component = listed.get(`${packageName(one)}@${lock.packages[one]!.version}`)
      assert.ok(component?.hashes?.[0], `${one} is not listed with its hash`)
      assert.ok(component.licenses?.[0] || packageName(one) === 'get-stack-trace', `${one} has no licence`)
    }
    assert.equal(listed.size, new Set(shipped.map((one) => `${packageName(one)}@${lock.packages[one]!.version}`)).size)
  })

  test('is not made of files that no commit has', async () => {
    writeFileSync(path.join(first, 'stray.txt'), 'not committed')
    const { code, output } = await runCommand('sh', ['-c', 'cd "$1" && npm run package -- release other', 'sh', first])
    assert.equal(code, 1)
    assert.match(output, /the checkout differs from its commit/)
  })
})
