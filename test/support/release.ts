/** The release before this one, compiled beside it: what an upgrade begins with. */

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { transform } from 'esbuild'
import { type Lock, productionFolders } from '../../deploy/build/packages.ts'
import { contentOf, made } from './made.ts'
import { mustRun } from './run-command.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
/** This commit serves until there is a release. `test/fixtures/signer-protocol.json` comes from it, too. */
const PREVIOUS = '5e5b443b'
const PROGRAMS = ['src', 'signer', 'workers']
const OTHERS = ['migrations', 'package.json', 'package-lock.json']

export interface Release {
  /** Holds `dist` and `node_modules`. */
  root: string
  /** The program of the signer. */
  signer: string
}

/** @throws Error where the commit is not in this clone */
export async function previousRelease(): Promise<Release> {
  const commit = (await mustRun('git', ['-C', ROOT, 'rev-parse', `${PREVIOUS}^{commit}`])).trim()
  const inputs = { commit, compiler: contentOf(import.meta.filename), node: process.version }
  const root = await made('previous-release', inputs, async (folder) => {
    const archive = path.join(folder, 'archive.tar')
    await mustRun('git', ['-C', ROOT, 'archive', `--output=${archive}`, commit, ...PROGRAMS, ...OTHERS])
    await mustRun('tar', ['-xf', archive, '-C', folder])
    rmSync(archive)
    await placePackages(folder)
    for (const name of PROGRAMS) await compile(folder, name)
  })
  return { root, signer: path.join(root, 'dist/signer/start.cjs') }
}

/** Places the packages of this checkout, where the former release had the same. */
async function placePackages(folder: string): Promise<void> {
  const [wanted, own] = [folder, ROOT].map(
    (at) => JSON.parse(readFileSync(path.join(at, 'package-lock.json'), 'utf8')) as Lock,
  ) as [Lock, Lock]
  const needed = productionFolders(wanted)
  if (needed.every((name) => own.packages[name]?.version === wanted.packages[name]?.version)) {
    for (const name of needed)
      if (existsSync(path.join(ROOT, name)))
        cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true, verbatimSymlinks: true })
  } else await mustRun('npm', ['ci', '--prefix', folder, '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund'])
}

const RELATIVE = /((?:\bfrom|\bimport|\bimport\(|\brequire\()\s*['"]\.[^'"]*)\.(c?)ts(['"])/g

/** Compiles module by module; the types were checked when they were committed. */
async function compile(folder: string, name: string): Promise<void> {
  const sources = readdirSync(path.join(folder, name), { recursive: true, encoding: 'utf8' })
    .map((file) => path.join(name, file))
    .filter((file) => /(?<!\.d)\.c?ts$/.test(file) && !file.startsWith('src/console/'))
  for (const source of sources) {
    const { code } = await transform(readFileSync(path.join(folder, source), 'utf8'), {
      loader: 'ts',
      target: 'es2023',
      format: source.endsWith('.cts') ? 'cjs' : 'esm',
      tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
    })
    const file = path.join(folder, 'dist', source.replace(/\.(c?)ts$/, '.$1js'))
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, code.replaceAll(RELATIVE, '$1.$2js$3'))
  }
}
