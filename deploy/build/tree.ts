/**
 * The tree that runs in production: compiled programs, migrations, and the packages that they load
 * on this platform. The Debian packages, the image and the archive of a release hold it.
 */

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { build } from 'esbuild'
import { INSTALLATION } from '../../src/shared/lib/program-files.ts'
import { foldersOf, type Lock, productionFolders } from './packages.ts'

export const ROOT = INSTALLATION

/** ABI numbers of Node.js 20 and 24; the HTTP library brings a binary for each of ten (README.md, "Systems"). */
const NODE_ABIS = [115, 137]
const HTTP_BINARY = new RegExp(`^uws_${process.platform}_${process.arch}_(?:${NODE_ABIS.join('|')})\\.node$`)

/** The bundles load these packages and what they depend on. Only the licences of all other packages are needed. */
export const LOADED = [
  '@node-rs/argon2',
  '@simplewebauthn/server',
  'graphene-pk11',
  'piscina',
  'prom-client',
  'tldts',
  'uWebSockets.js',
]

const LICENCE = /^(?:licen[cs]e|notice|copying)[^/]*$/i

const SIGNER_SOURCES = ['signer/start.cts', 'signer/main.ts']
const SIGNER_FILES = ['dist/signer', 'dist/chunks/signer']

/** @param folder is made; what is in it stays */
export async function writeTree(folder: string, only?: 'signer'): Promise<void> {
  requirePkcs11()
  const { files, packages } = only === 'signer' ? await signerParts() : wholeParts()
  for (const file of [...files, 'package.json', 'LICENSE']) copy(file, folder, isNeeded)
  packMaps(path.join(folder, 'dist'))
  const loaded = foldersOf(readLock(), LOADED)
  for (const one of packages)
    if (existsSync(path.join(ROOT, one))) copy(one, folder, loaded.includes(one) ? isNeeded : isLegal)
}

/** A map is read when an error is logged (`src/ops/logging.ts`), for positions, not for names; a bundle that is
 * mostly packages has none. */
function packMaps(folder: string): void {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((one) => one.endsWith('.map'))) {
    const file = path.join(folder, name)
    const map = JSON.parse(readFileSync(file, 'utf8')) as { names: string[]; sources: string[] }
    const isOurs = (source: string) => !source.includes('node_modules/')
    if (map.sources.filter(isOurs).length > map.sources.length / 4)
      writeFileSync(`${file}.br`, brotliCompressSync(JSON.stringify({ ...map, names: [] })))
    rmSync(file)
  }
}

function wholeParts() {
  const folders = ['src', 'signer', 'workers', 'chunks', 'console'].map((name) => `dist/${name}`)
  return { files: [...folders, 'src/events/templates', 'migrations'], packages: productionFolders(readLock()) }
}

/**
 * The signer runs on a host of its own, without the service. The packages are those that its sources import: the bundles
 * contain most of them, and their licences have to come along.
 */
async function signerParts() {
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: SIGNER_SOURCES,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outdir: 'unused',
    write: false,
    metafile: true,
    logLevel: 'error',
  })
  const imports = Object.values(metafile.outputs).flatMap((one) => one.imports)
  const names = imports.filter(({ path: name }) => !isBuiltIn(name)).map(({ path: name }) => nameOf(name))
  return { files: SIGNER_FILES, packages: foldersOf(readLock(), new Set(names)) }
}

const isBuiltIn = (name: string) => name.startsWith('node:')
/** `zod/v4` is a part of `zod`. */
const nameOf = (specifier: string) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')

export const readLock = (): Lock => JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as Lock

/** npm leaves a native package out where it did not compile, and the tree would lack it in silence. */
function requirePkcs11(): void {
  try {
    createRequire(import.meta.url)('pkcs11js')
  } catch (cause) {
    throw new Error(
      'graphene-pk11 is not built: it needs g++, make, python3 and libnode-dev (docs/operations/signer.md)',
      {
        cause,
      },
    )
  }
}

function copy(name: string, folder: string, isWanted: (file: string) => boolean): void {
  const target = path.join(folder, name)
  mkdirSync(path.dirname(target), { recursive: true })
  cpSync(path.join(ROOT, name), target, {
    recursive: true,
    filter: (source) => isWanted(path.relative(ROOT, source)),
  })
}

/** Types and maps of packages, sources of native code and pages for developers are never loaded; licences stay. */
function isNeeded(file: string): boolean {
  if (/^dist\/\./.test(file)) return false
  if (!file.startsWith('node_modules/')) return true
  const name = path.basename(file)
  if (name.startsWith('uws_') && name.endsWith('.node')) return HTTP_BINARY.test(name)
  if (name.startsWith('.') || /^node_modules\/uWebSockets\.js\/(?:src|misc|mvp|scripts)$/.test(file)) return false
  if (/node_modules\/(?:@[^/]+\/)?[^/]+\/(?:docs?|examples?|tests?|bench(?:mark)?s?)$/.test(file)) return false
  // The bundles import its ES modules; `script` is for require().
  if (/^node_modules\/@simplewebauthn\/server\/script$/.test(file) || isOtherForm(file)) return false
  // Both have all of it in `dist/cjs/index.js`.
  if (/^node_modules\/tldts(?:-core)?\/dist\/cjs\/src$/.test(file)) return false
  // node-gyp leaves these; other packages have their code in a folder of that name.
  if (/\/build\/(?:Makefile|config\.gypi|[^/]+\.mk|[^/]+\.Makefile|Release\/(?![^/]+\.node$).*)$/.test(file))
    return false
  return (
    !/\.(?:map|[cm]?ts|md|flow|tsbuildinfo|c|cc|cpp|h|gyp|gypi|markdown|html|sh)$/i.test(name) || LICENCE.test(name)
  )
}

const OTHER_FORM =
  /\/(?:es6|es2015|esm\d*|esnext|umd)(?:\/|$)|\.(?:cjs|esm|umd)\.min\.js$|@peculiar\/x509\/build\/x509\.js$/

/** Without `exports`, Node.js loads the form that `main` names; the others are for bundlers and browsers. */
function isOtherForm(file: string): boolean {
  const [, top] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file) ?? []
  if (top === undefined || !OTHER_FORM.test(file)) return false
  const manifest = JSON.parse(readFileSync(path.join(ROOT, top, 'package.json'), 'utf8')) as Record<string, unknown>
  return manifest['exports'] === undefined && !OTHER_FORM.test(`/${manifest['main']}`)
}

/** Names, versions and licences of a package whose code is in the bundles; its own packages are copied by themselves. */
function isLegal(file: string): boolean {
  const below = file.replace(/^.*node_modules\/(?:@[^/]+\/)?[^/]+\/?/, '')
  return below === '' || below === 'package.json' || LICENCE.test(below)
}
