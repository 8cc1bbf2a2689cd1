import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { adminConfig, administrator, createAdministrator } from '../support/admin.ts'
import { type Administrators, startAdministrators, type WorkReport } from '../support/administrators.ts'
import { type BenchRun, resultsIn, startBench } from '../support/bench.ts'
import { testDatabase } from '../support/database.ts'
import { fillWithCertificates } from '../support/many-certificates.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { words } from '../support/words.ts'
import { loadAverage, median } from './figures.ts'

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
const folder = temporaryFolder()
const database = await testDatabase()
// Filled before the service starts, or it would write of each certificate while it is measured.
await fillWithCertificates(database.connection, certificates, (sentence) => console.log(sentence))
const service = await startTestService({
  database,
  config: {
    ...adminConfig(),
    notifications: { enabled: false },
    security: { rate_limits: { enabled: false } },
    server: { workers: 1 },
  },
})
const rounds: Record<string, { alone: Measured; beside: Measured }[]> = {}
const reports: WorkReport[] = []
let running: BenchRun | undefined
let administrators: Administrators | undefined
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
  administrators?.stop()
  await service.dispose()
}
process.exit()

async function measure(): Promise<void> {
  const password = await createAdministrator(service.database, 'load')
  const { token } = await administrator(service, 'reader')
  administrators = startAdministrators({ baseUrl: service.baseUrl, token, username: 'load', password })
  for (let round = 0; round < ROUNDS; round++)
    for (const { scenario } of GOALS) {
      const alone = await load(scenario)
      administrators.begin()
      const beside = await load(scenario)
      reports.push(await administrators.end())
      rounds[scenario] = [...(rounds[scenario] ?? []), { alone, beside }]
      const [p99, rate] = [
        `${alone.p99.toFixed(1)} → ${beside.p99.toFixed(1)} ms`,
        `${alone.rate.toFixed(0)} → ${beside.rate.toFixed(0)}/s`,
      ]
      console.log(`${scenario}, round ${round + 1}: p99 ${p99}, ${rate}`)
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
  reportAdministrators()
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(`\n${seconds} s; ${loadAverage()}`)
}

/** What the administrators got: of all rounds together, since it is there to show that they did work. */
function reportAdministrators(): void {
  const seconds = reports.reduce((sum, report) => sum + report.seconds, 0)
  const cpu = reports.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
  console.log(
    `\nadministrators for ${seconds.toFixed(0)} s; their own process took ${((cpu / seconds) * 100).toFixed(1)} % of a processor`,
  )
  for (const [at, { name }] of (reports[0]?.kinds ?? []).entries()) {
    const all = reports.flatMap(({ kinds }) => kinds[at] ?? [])
    const sum = (of: (kind: (typeof all)[number]) => number) => all.reduce((total, kind) => total + of(kind), 0)
    const ms = median(all.map(({ medianMs }) => medianMs))
    const cells = [`${(sum(({ done }) => done) / seconds).toFixed(1)}/s`, `${ms.toFixed(0)} ms`]
    const extra = `${(sum(({ mebibytes }) => mebibytes) / seconds).toFixed(2)} MiB/s, ${sum(({ refused }) => refused)} refused`
    console.log(`  ${name.padEnd(14)}${cells.map((cell) => cell.padStart(10)).join('')}   ${extra}`)
  }
}

async function load(scenario: string): Promise<Measured> {
  const file = path.join(folder, `${Date.now()}.json`)
  const place = words`--directory ${service.directoryUrl} --http01-port ${String(service.http01Port)} --server-pid 0`
  const work = words`--scenario ${scenario} --clients 8 --duration ${String(SECONDS)} --dns-port 0 --tlsalpn01-port 0`
  running = startBench(folder, ...place, ...work, '--json', file)
  const { code, output } = await running.done
  if (code !== 0) throw new Error(output)
  const [result] = resultsIn(file)
  if (!result) throw new Error(`${scenario} measured nothing: ${output}`)
  return { rate: result.perSecond, p99: result.latency.p99 }
}
