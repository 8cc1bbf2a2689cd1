/** The Debian packages of this checkout, as three releases in a row, and Node.js. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { NODE_RELEASES } from '../../deploy/build/node-release.ts'
import { contentOf, debianState, made, productionContent } from './made.ts'
import { mustRun } from './run-command.ts'

const PACKAGER = path.resolve(import.meta.dirname, '../../deploy/build/main.js')

/** Quickly packed: how small they are is another test's. */
const QUICK = { DPKG_DEB_COMPRESSOR_TYPE: 'gzip', DPKG_DEB_COMPRESSOR_LEVEL: '1' }

const build = (...words: string[]) => mustRun(process.execPath, [PACKAGER, ...words], { env: QUICK })

/** @returns a folder with `chancery` and `chancery-signer` of the revisions 1 to 3; the third has a migration more */
export async function programPackages(): Promise<string> {
  const date = await mustRun('git', ['-C', import.meta.dirname, 'log', '-1', '--format=%cD'])
  const inputs = {
    content: productionContent(),
    makers: contentOf(import.meta.filename),
    date,
    node: process.version,
    debian: debianState(),
  }
  return made('packages', inputs, async (folder) => {
    await build('deb', '--revision', '2', folder)
    for (const name of ['chancery', 'chancery-signer']) {
      await asRevision(1, folder, name)
      await asRevision(3, folder, name, (at) => {
        if (name !== 'chancery') return
        const migration = path.join(at, 'usr/lib/chancery/installed/migrations/9001_further.sql')
        writeFileSync(migration, 'ALTER TABLE orders ADD COLUMN further text;\n')
      })
    }
  })
}

/** Packs the second build again: only its number differs, which the scripts of the package know, too. */
async function asRevision(
  revision: number,
  folder: string,
  name: string,
  change: (at: string) => void = () => undefined,
): Promise<void> {
  const at = mkdtempSync(path.join(tmpdir(), 'chancery-repacked-'))
  const from = path.join(folder, readdirSync(folder).find((file) => file.startsWith(`${name}_`) && /-2_/.test(file))!)
  await mustRun('dpkg-deb', ['--raw-extract', from, at])
  change(at)
  for (const script of readdirSync(path.join(at, 'DEBIAN'))) {
    const file = path.join(at, 'DEBIAN', script)
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replaceAll(/(\d\.\d\.\d)-2/g, `$1-${revision}`))
  }
  const to = from.replace('-2_', `-${revision}_`)
  await mustRun('dpkg-deb', ['--root-owner-group', '--build', at, to], { env: QUICK })
  rmSync(at, { recursive: true })
}

/** @returns a folder with the package `chancery-nodejs` */
export async function nodePackage(major: '20' | '24'): Promise<string> {
  const makers = contentOf('deploy/debian/nodejs', 'deploy/build', import.meta.filename)
  const inputs = { release: NODE_RELEASES[major], makers, debian: debianState() }
  return made(`nodejs-${major}`, inputs, (folder) => build('deb-nodejs', '--node', major, folder))
}

/** Asks lintian once for each package. @returns what it says @throws AssertionError where it finds an error */
export async function lintian(file: string): Promise<string> {
  const [name = ''] = path.basename(file).split('_')
  const inputs = { content: contentOf(file), lintian: await mustRun('dpkg-query', ['-W', 'lintian']) }
  const folder = await made(`lintian-${name}`, inputs, async (at) => {
    const said = await mustRun('lintian', ['--allow-root', '--fail-on', 'error', file])
    writeFileSync(path.join(at, 'said'), said)
  })
  return readFileSync(path.join(folder, 'said'), 'utf8')
}
