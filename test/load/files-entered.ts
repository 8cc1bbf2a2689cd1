/**
 * How many files does a reader open to follow one request? Counts the files of which a function is entered, by thread, for
 * new-order, finalize and a list of the Admin API, which the fronts hand on unless it has a port of its own.
 *
 *     npm run build && npm run compile && node compiled/test/load/files-entered.js [--list] [--own-port]
 *
 * The service is made of the compiled modules, one a file, in place of the bundles. A function counts that each of some
 * requests enters, and more often than an idle stretch of the same length: timers are left out so.
 */

import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, csrFor, JOSE, send } from '../support/acme-client.ts'
import { adminConfig } from '../support/admin.ts'
import { freePort } from '../support/free-port.ts'
import { startIssuing } from '../support/issuing.ts'
import { startTestService } from '../support/service.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const PROBE = 'entered-functions.js'
const ROUNDS = 8

/** An installation whose programs are the compiled modules. Its signer, which has an environment of its own, loads the probe. */
function installation(): string {
  // Below the checkout, whose packages it finds: by a link to them, Node.js would load some of them twice.
  mkdirSync(path.join(ROOT, 'build'), { recursive: true })
  const folder = mkdtempSync(path.join(ROOT, 'build/files-entered-'))
  for (const name of ['src', 'migrations', 'package.json']) symlinkSync(path.join(ROOT, name), path.join(folder, name))
  for (const tree of ['src', 'signer', 'workers'])
    cpSync(path.join(ROOT, 'compiled', tree), path.join(folder, 'dist', tree), { recursive: true })
  symlinkSync(path.join(ROOT, 'dist/console'), path.join(folder, 'dist/console'))
  cpSync(path.join(import.meta.dirname, PROBE), path.join(folder, PROBE))
  mkdirSync(path.join(folder, 'threads'))
  const start = `import('../../${PROBE}').then(() => import('./main.js'))`
  writeFileSync(path.join(folder, 'dist/signer/start.cjs'), start)
  return folder
}

/** Calls by thread and function, such as `thread-4 src/http/uws.js:120`. */
type Calls = Map<string, number>

/** What all threads have entered since the last call. */
async function take(threads: string): Promise<Calls> {
  const calls: Calls = new Map()
  const taken = readdirSync(threads).map(async (name) => {
    const functions = JSON.parse(await text(connect(path.join(threads, name)))) as [string, number][]
    for (const [place, count] of functions) calls.set(`${name.split('.')[0]} ${place}`, count)
  })
  await Promise.allSettled(taken)
  return calls
}

const found = new Map<string, { busy: Calls; idle: Calls }[]>()

async function measured<T>(what: string, threads: string, request: () => Promise<T>): Promise<T> {
  await take(threads)
  const startedAt = performance.now()
  const answer = await request()
  const busy = await take(threads)
  await sleep(performance.now() - startedAt)
  const idle = await take(threads)
  found.set(what, [...(found.get(what) ?? []), { busy, idle }])
  return answer
}

/** The files, each behind its thread. */
function filesOf(rounds: { busy: Calls; idle: Calls }[]): string[] {
  const always = [...rounds[0]!.busy.keys()].filter((place) => rounds.every(({ busy }) => busy.has(place)))
  const more = (place: string) =>
    rounds.reduce((sum, { busy, idle }) => sum + (busy.get(place) ?? 0) - (idle.get(place) ?? 0), 0)
  const files = always.filter((place) => more(place) >= rounds.length).map((place) => place.split(':')[0]!)
  return [...new Set(files)].sort()
}

const root = installation()
const threads = path.join(root, 'threads')
const ownPort = process.argv.includes('--own-port') ? await freePort() : undefined
process.env['NODE_OPTIONS'] = `--import=${path.join(root, PROBE)}`
const service = await startTestService({
  root,
  config: {
    ...adminConfig(ownPort === undefined ? {} : { listen: { port: ownPort } }),
    server: { workers: 1, overload: { enabled: true } },
    notifications: { enabled: true },
  },
})
delete process.env['NODE_OPTIONS']

try {
  const baseUrl = ownPort === undefined ? service.baseUrl : `http://127.0.0.1:${ownPort}`
  const { client, responder, auditor, end } = await startIssuing({ ...service, baseUrl })
  for (let round = 0; round <= ROUNDS; round++) {
    const name = `host${round}.test`
    const payload = { identifiers: [{ type: 'dns', value: name }] }
    const post = async (what: string, url: string, content: object): Promise<Answer> => {
      const body = JSON.stringify(await client.jws(url, { payload: content }))
      return measured(what, threads, () => send({ url, headers: JOSE, body }))
    }
    const order = await post('new-order', client.directory['newOrder']!, payload)
    await client.authorize(order, responder)
    const finalized = await post('finalize', order.json.finalize, { csr: await csrFor([name]) })
    const listed = await measured('GET /accounts', threads, () => auditor.get('/accounts'))
    if (finalized.json.status !== 'valid' || listed.status !== 200) throw new Error(`${finalized.text} ${listed.text}`)
    // The first round fills what is remembered.
    if (round === 0) found.clear()
  }
  await end()
} finally {
  await service.dispose()
  rmSync(root, { recursive: true, force: true })
}

for (const [what, rounds] of found) {
  const files = filesOf(rounds)
  for (const thread of new Set(files.map((file) => file.split(' ')[0]))) {
    const entered = files.filter((file) => file.startsWith(`${thread} `))
    console.log(`${what}: ${entered.length} files in ${thread}`)
    if (process.argv.includes('--list')) for (const file of entered) console.log(`    ${file.split(' ')[1]}`)
  }
}
