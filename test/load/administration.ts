/**
 * What do twenty administrators cost the ACME clients?
 *
 * `node dist/test/load/administration.js [CERTIFICATES]` starts a service with that many certificates (default 200,000) and loads
 * it with signed reads and with certificates, in turn without and with administrators who list, export the audit log and sign in.
 * It takes less than three minutes, prints a table with the goals, and ends with 1 when one is missed. A loaded machine decides
 * more than the administrators do: see the load average below the table.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import {
  type AdminClient,
  adminConfig,
  administrator,
  adminRequest,
  createAdministrator,
  signIn,
} from '../support/admin.ts'
import { type BenchRun, resultsIn, startBench } from '../support/bench.ts'
import { fillWithCertificates } from '../support/many-certificates.ts'
import { startTestService } from '../support/service.ts'

const ADMINISTRATORS = 20
/** A person and a dashboard: one request every half a second each. */
const PAUSE_MS = 500
const ROUNDS = 3
const SECONDS = 8
/** After this, the table has what was measured until then. */
const MOST_MS = 145_000
const certificates = Number(process.argv[2] ?? 200_000)

interface Measured {
  rate: number
  p99: number
}
interface Goal {
  scenario: string
  what: keyof Measured
  /** Of the ratio of beside to alone. */
  isMet(ratio: number): boolean
  words: string
}
const GOALS: readonly Goal[] = [
  { scenario: 'signed-read', what: 'p99', isMet: (ratio) => ratio <= 1.1, words: 'at most +10 %' },
  { scenario: 'full-flow', what: 'rate', isMet: (ratio) => ratio >= 0.95, words: 'at most -5 %' },
]

const startedAt = performance.now()
const folder = mkdtempSync(path.join(tmpdir(), 'chancery-administration-'))
const service = await startTestService({
  config: {
    ...adminConfig(),
    security: { rate_limits: { enabled: false } },
    server: { workers: 1 },
  },
})
const rounds: Record<string, { alone: Measured; beside: Measured }[]> = {}
let running: BenchRun | undefined
try {
  const left = setTimeout(MOST_MS, undefined, { ref: false })
  const measured = measure()
  // What is under way then ends with the service.
  measured.catch(() => undefined)
  await Promise.race([measured, left])
  report()
} finally {
  // The bench leads a process group of its own.
  if (running?.child.pid !== undefined && running.child.exitCode === null) process.kill(-running.child.pid, 'SIGKILL')
  await service.dispose()
  rmSync(folder, { recursive: true, force: true })
}
process.exit()

async function measure(): Promise<void> {
  await fillWithCertificates(service.database.connection, certificates, (sentence) => console.log(sentence))
  const password = await createAdministrator(service.database, 'load')
  const admin = await administrator(service, 'reader')
  for (let round = 0; round < ROUNDS; round++)
    for (const { scenario } of GOALS) {
      const alone = await load(scenario)
      const stop = administrate(admin, password)
      const beside = await load(scenario)
      const requests = await stop()
      rounds[scenario] = [...(rounds[scenario] ?? []), { alone, beside }]
      console.log(`${scenario}, round ${round + 1}: ${requests} administrative requests beside it`)
    }
}

function report(): void {
  const line = (...cells: string[]) =>
    console.log(cells.map((cell, at) => (at === 0 ? cell.padEnd(24) : cell.padStart(14))).join(''))
  console.log()
  line('median of the rounds', 'rounds', 'alone', 'beside', 'change', 'goal', '')
  for (const { scenario, what, isMet, words } of GOALS) {
    const measured = rounds[scenario] ?? []
    const ratio = median(measured.map(({ alone, beside }) => beside[what] / alone[what]))
    const of = (values: Measured[]) =>
      what === 'p99'
        ? `${median(values.map(({ p99 }) => p99)).toFixed(1)} ms`
        : `${median(values.map(({ rate }) => rate)).toFixed(0)}/s`
    const isGood = measured.length > 0 && isMet(ratio)
    if (!isGood) process.exitCode = 1
    const change = `${ratio >= 1 ? '+' : ''}${((ratio - 1) * 100).toFixed(1)} %`
    const [alone, beside] = [of(measured.map((one) => one.alone)), of(measured.map((one) => one.beside))]
    line(`${scenario} ${what}`, String(measured.length), alone, beside, change, words, isGood ? 'met' : 'MISSED')
  }
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(
    `\n${seconds} s; load average ${loadavg()
      .map((one) => one.toFixed(1))
      .join(', ')}`,
  )
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN
}

/** @returns what ends it and counts the requests */
function administrate(admin: AdminClient, password: string): () => Promise<number> {
  let isOver = false
  let requests = 0
  const work = [
    () => admin.get('/certificates?status=active'),
    () => admin.get('/accounts'),
    () => admin.send('POST', '/audit-log/export', {}),
    () => signIn(service.baseUrl, 'load', password),
    () => adminRequest(service.baseUrl, 'GET', '/me', { token: admin.token }),
  ]
  const all = Array.from({ length: ADMINISTRATORS }, async (_, index) => {
    for (let n = index; !isOver; n++) {
      await work[n % work.length]?.()
      requests++
      await setTimeout(PAUSE_MS)
    }
  })
  const ended = Promise.all(all)
  // They may outlive the service when the time is over.
  ended.catch(() => undefined)
  return async () => {
    isOver = true
    await ended
    return requests
  }
}

async function load(scenario: string): Promise<Measured> {
  const file = path.join(folder, `${Date.now()}.json`)
  running = startBench(
    folder,
    ...['--directory', service.directoryUrl, '--scenario', scenario, '--clients', '8', '--duration', String(SECONDS)],
    ...[
      '--server-pid',
      '0',
      '--http01-port',
      String(service.http01Port),
      '--dns-port',
      '0',
      '--tlsalpn01-port',
      '0',
      '--json',
      file,
    ],
  )
  const { code, output } = await running.done
  if (code !== 0) throw new Error(output)
  const [result] = resultsIn(file)
  if (!result) throw new Error(`${scenario} measured nothing: ${output}`)
  return { rate: result.perSecond, p99: result.latency.p99 }
}
