/**
 * Builds the console: `src/console` to `dist/console`, with hashes in the names and packed by Brotli and gzip.
 *
 * The page's table of operations comes from the descriptions of the Admin API, which are compiled for it. The types are
 * checked by `npm run typecheck`.
 */

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')
const SOURCE = path.join(ROOT, 'src/console')
const TARGET = path.join(ROOT, 'dist/console')

/** The page knows the operations of the service, and the actions of the audit log. */
async function factsOfService() {
  const file = path.join(ROOT, 'dist/facts-of-service.mjs')
  await build({
    absWorkingDir: ROOT,
    stdin: {
      contents: `export { ENDPOINTS } from './src/admin/endpoints.ts'
export { AUDIT_ACTIONS } from './src/domain/audit-chain.ts'`,
      resolveDir: ROOT,
    },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outfile: file,
  })
  const { ENDPOINTS, AUDIT_ACTIONS } = await import(file)
  rmSync(file)
  return { operations: Object.fromEntries(ENDPOINTS.map(operation)), actions: AUDIT_ACTIONS }
}

/** Method, path and roles (`none` needs no token), and the parameters of its query. */
function operation({ id, method, path, roles, query }) {
  return [id, [method, path, roles, Object.keys(query?.shape ?? {})]]
}

async function bundle() {
  const { operations, actions } = await factsOfService()
  const { outputFiles } = await build({
    entryPoints: ['main.tsx', 'styles.css'].map((name) => path.join(SOURCE, name)),
    tsconfig: path.join(SOURCE, 'tsconfig.json'),
    define: { OPERATIONS_OF_BUILD: JSON.stringify(operations), ACTIONS_OF_BUILD: JSON.stringify(actions) },
    outdir: TARGET,
    entryNames: '[name].[hash]',
    chunkNames: 'page.[hash]',
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    legalComments: 'none',
  })
  return outputFiles.map(({ path: file, contents }) => ({ name: path.basename(file), contents }))
}

/** Like the names that esbuild gives. */
function hashedName(name, contents) {
  const hash = createHash('sha256').update(contents).digest('hex').slice(0, 8).toUpperCase()
  return name.replace('.', `.${hash}.`)
}

/** The licences of the bundled packages ask to be passed on. */
function licences() {
  const texts = ['preact', 'uplot'].map(
    (name) => `${name}\n\n${readFileSync(path.join(ROOT, 'node_modules', name, 'LICENSE'), 'utf8')}`,
  )
  return Buffer.from(texts.join('\n\n'))
}

function page(names) {
  const html = readFileSync(path.join(SOURCE, 'index.html'), 'utf8')
  return html.replaceAll(/\{([\w.]+)\}/g, (_, wanted) => {
    const [stem, ending] = wanted.split('.')
    return names.find((name) => name.startsWith(`${stem}.`) && name.endsWith(`.${ending}`))
  })
}

function write(name, contents) {
  const brotli = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: contents.length },
  }
  writeFileSync(path.join(TARGET, name), contents)
  writeFileSync(path.join(TARGET, `${name}.br`), brotliCompressSync(contents, brotli))
  writeFileSync(path.join(TARGET, `${name}.gz`), gzipSync(contents, { level: 9 }))
}

/** Each environment has an icon in its colour. White on each colour has a contrast of 4.5 to 1. */
const ICON_COLORS = {
  gray: '#5b6570',
  red: '#b3261e',
  orange: '#a4500b',
  green: '#1b6e3c',
  blue: '#1d5f8a',
  purple: '#6d3fa8',
}

function icons() {
  const icon = readFileSync(path.join(SOURCE, 'icon.svg'), 'utf8')
  const colored = Object.entries(ICON_COLORS).map(([color, hex]) => [`icon-${color}.svg`, icon.replace('#22577a', hex)])
  return [['icon.svg', icon], ...colored].map(([name, text]) => {
    const contents = Buffer.from(text)
    return { name: hashedName(name, contents), contents }
  })
}

export async function buildConsole() {
  const files = [...(await bundle()), ...icons()]
  rmSync(TARGET, { recursive: true, force: true })
  mkdirSync(TARGET, { recursive: true })
  for (const { name, contents } of files) write(name, contents)
  write('licences.txt', licences())
  write('index.html', Buffer.from(page(files.map(({ name }) => name))))
}
