/**
 * Builds what runs, into `dist`: a bundle for each program and each thread, and the console. With `packager` as its
 * argument, it builds what makes packages and releases of that.
 *
 * A front thread reads 12 files instead of more than 300, and a start takes half the time of the processor
 * (docs/decisions/mechanisms.md). The types are checked by `npm run typecheck`.
 */

import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { buildConsole } from './build-console.mjs'

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')
const SOURCES = ['src', 'signer', 'workers']

/**
 * These packages have native code or files of their own for threads, or load late. Some are of the development mode.
 */
const NOT_BUNDLED = [
  '@node-rs/argon2',
  '@peculiar/x509',
  '@simplewebauthn/server',
  'graphene-pk11',
  'pg-native',
  'piscina',
  'reflect-metadata',
  'uWebSockets.js',
]

const OPTIONS = {
  absWorkingDir: ROOT,
  outdir: 'dist',
  outbase: '.',
  bundle: true,
  external: NOT_BUNDLED,
  platform: 'node',
  target: 'node20.19',
  format: 'esm',
  // Packages that are CommonJS modules require Node's own.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
  // pg looks for `Response` where there is no navigator, as in Node.js 20; that loads undici, 25 ms in each thread.
  define: { navigator: '{"userAgent":"Node.js"}' },
  sourcemap: 'linked',
  sourcesContent: false,
  legalComments: 'none',
  logLevel: 'warning',
}

/** The sources that `programFile()` of `src/shared/lib/program-files.ts` names. */
function threadEntries() {
  const files = SOURCES.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => path.join(ROOT, folder, name)),
  )
  const named = files.flatMap((file) => [...readFileSync(file, 'utf8').matchAll(/\bprogramFile\('([^']+\.ts)'\)/g)])
  return [...new Set(named.map(([, entry]) => entry))]
}

/** A command loads its part when it runs. */
function program(entry, chunks) {
  return build({ ...OPTIONS, entryPoints: [entry], splitting: true, chunkNames: `chunks/${chunks}/[name]-[hash]` })
}

/** It sets the number of libuv's threads before any module is loaded, so it is a CommonJS module that imports the program. */
function signerStart() {
  const options = { ...OPTIONS, format: 'cjs', banner: {}, define: {}, outExtension: { '.js': '.cjs' } }
  return build({ ...options, entryPoints: ['signer/start.cts'], external: ['./main.js'] })
}

/** The packager is a program of its own, behind `npm run package`; it needs no types and no tests. */
function packager() {
  const places = { outdir: 'build/packager', chunkNames: 'chunks/[name]-[hash]' }
  const external = [...NOT_BUNDLED, 'esbuild']
  return build({ ...OPTIONS, ...places, external, entryPoints: ['deploy/build/main.ts'], splitting: true })
}

async function programs() {
  for (const folder of [...SOURCES, 'chunks']) rmSync(path.join(ROOT, 'dist', folder), { recursive: true, force: true })
  await Promise.all([
    build({ ...OPTIONS, entryPoints: threadEntries(), splitting: true, chunkNames: 'chunks/threads/[name]-[hash]' }),
    program('src/cli/main.ts', 'chancery'),
    program('signer/main.ts', 'signer'),
    signerStart(),
    buildConsole(),
  ])
  for (const folder of [...SOURCES, 'chunks']) keepOneByte(path.join(ROOT, 'dist', folder))
  // The bundler makes files with a first line for Node executable; none of them is called by its own name.
  for (const name of ['src/cli/main.js', 'signer/main.js', 'signer/start.cjs'])
    chmodSync(path.join(ROOT, 'dist', name), 0o644)
}

/**
 * V8 keeps a source with one character above U+00FF at two bytes a character: 3 MB more in a thread. The bundler leaves
 * such characters in comments, templates and regular expressions.
 */
function keepOneByte(folder) {
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!/\.c?js$/.test(name)) continue
    const file = path.join(folder, name)
    const text = readFileSync(file, 'utf8')
    const escaped = text.replaceAll(/[^\0-\xff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
    if (escaped !== text) writeFileSync(file, escaped)
  }
}

await (process.argv[2] === 'packager' ? packager() : programs())
