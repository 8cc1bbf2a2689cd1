/**
 * `npm run bench -- ledger`: where the CPU of one operation goes.
 *
 * 1. A service of this tree is started with a probe in each thread, and warmed up.
 * 2. A load without a profile says what each thread costs.
 * 3. A load with a profile in each thread says what that is made of.
 */

import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { option, optional, type Raw, readOptions } from '../../src/shared/command-line.ts'
import type { Command, Outcome } from '../contest.ts'
import { integer, number, output, someOf } from '../flags.ts'
import { cpuOfThreads } from '../measure/thread-cpu.ts'
import { FLAGS, type Plan, parseOptions } from '../options.ts'
import { isGood, type Result } from '../report/result.ts'
import { closedLoop, type Surroundings, withRig } from '../run.ts'
import type { ScenarioName } from '../scenario/table.ts'
import { type Build, OWN_ROOT, ownBuild } from '../servers/build.ts'
import { ACCEPT_ALL, startBuild } from '../servers/chancery.ts'
import { entriesOf, functionsOf, type Ledger, type ThreadShare, threadOf } from './ledger.ts'
import { sourceFinder, stacksOf, type ThreadProfile } from './profile.ts'
import { functionLines, ledgerTable, requestTable } from './tables.ts'

interface Subject {
  title: string
  scenario: ScenarioName
  challenge: string
  isCold?: true
}

const SUBJECTS = {
  certificate: { title: 'certificate', scenario: 'full-flow', challenge: ACCEPT_ALL },
  'http-01': { title: 'with http-01', scenario: 'full-flow', challenge: 'http-01' },
  cold: { title: 'certificate, first seconds', scenario: 'full-flow', challenge: ACCEPT_ALL, isCold: true },
  account: { title: 'account', scenario: 'new-account', challenge: ACCEPT_ALL },
  order: { title: 'order', scenario: 'new-order', challenge: ACCEPT_ALL },
} as const satisfies Record<string, Subject>
type SubjectName = keyof typeof SUBJECTS
const SUBJECT_NAMES = Object.keys(SUBJECTS) as SubjectName[]

const { clients, duration, workers, 'server-cpus': serverCpus } = FLAGS
const LOAD_FLAGS = {
  clients: { ...clients, fallback: 64 },
  duration,
  // The compiler is nearly done then.
  warmup: option('Seconds to run before measuring', number(1, 604_800), 20),
  workers,
  'server-cpus': serverCpus,
}
const OWN_FLAGS = {
  of: option(`Ledgers, of ${SUBJECT_NAMES.join(',')}`, someOf(SUBJECT_NAMES), SUBJECT_NAMES.join(',')),
  functions: option('List as many functions of each thread; 0 for none', integer(0, 10_000), 0),
  markdown: optional('Document whose part between its two lines "<!-- ledger -->" is written anew', output),
}
const PROBE = path.join(import.meta.dirname, 'probe.cjs')
/** A profile of a front thread is some megabytes, written at once. */
const WRITTEN_WITHIN_MS = 10_000

export const command: Command = {
  about: [
    'Show where the CPU of one operation goes, by part of the work, by thread and by request.',
    'It starts this tree. Here "bench" stands for: npm run bench --',
  ],
  examples: ['ledger --clients 64 --server-cpus 0', 'ledger --of certificate --functions 40'],
  options: { ...LOAD_FLAGS, ...OWN_FLAGS },
  run: makeLedgers,
}

async function makeLedgers(raw: Raw, around: Surroundings): Promise<Outcome> {
  const { of: names, functions, markdown } = readOptions(OWN_FLAGS, raw)
  const flags = { ...readOptions(LOAD_FLAGS, raw), start: true }
  const build = await ownBuild(around.interrupt)
  const [ledgers, results]: [Ledger[], Result[]] = [[], []]
  const common = parseOptions(flags)
  for (const name of names) {
    const { challenge, scenario } = SUBJECTS[name]
    const plan = parseOptions({ ...flags, challenge, scenario })
    const { ledger, result } = await makeLedger(SUBJECTS[name], build, plan, around)
    for (const line of functionLines(ledger, functions)) console.log(line)
    ledgers.push(ledger)
    results.push(result)
  }
  const flow = ledgers[names.indexOf('certificate')]
  const text = [
    `Of ${build.name}, Node.js ${process.version}:`,
    ledgerTable(ledgers),
    ...(flow ? [requestTable(flow)] : []),
  ]
  console.log(text.join('\n\n'))
  if (markdown !== undefined) writeBlock(markdown, text.join('\n\n'))
  const subject = { name: build.name, commit: build.commit, note: build.subject }
  return { plan: common, parts: { servers: [subject] }, isGood: results.every(isGood) }
}

/** @throws Error when the document has no such place */
function writeBlock(file: string, block: string): void {
  const [before, , after, ...more] = readFileSync(file, 'utf8').split('<!-- ledger -->\n')
  if (after === undefined || more.length > 0) throw new Error(`${file} has not two lines "<!-- ledger -->"`)
  writeFileSync(file, `${before}<!-- ledger -->\n${block}\n<!-- ledger -->\n${after}`)
}

/** In a folder of its own, whose files the probe in it looks for. */
async function makeLedger(subject: Subject, build: Build, plan: Plan, around: Surroundings) {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-ledger-'))
  const probe = path.join(folder, 'probe.cjs')
  try {
    copyFileSync(PROBE, probe)
    const environment = { NODE_OPTIONS: `--require ${probe}` }
    const data = path.join(folder, 'data')
    const server = await startBuild(build, data, plan, around.interrupt, environment)
    try {
      return await measure(subject, { ...plan, options: server.options }, folder, around)
    } finally {
      await server.stop()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A cold service is measured once: the figures of its threads are those under the profile. */
async function measure(subject: Subject, { options }: Plan, folder: string, around: Surroundings) {
  const [pid] = options.pids as [number]
  const loop = { ...closedLoop(options), warmup: [] }
  return await withRig(options, subject.scenario, 0, around, async (load) => {
    const timed = async () => {
      const before = cpuOfThreads(pid)
      const { result } = await load(loop)
      const after = cpuOfThreads(pid)
      const used = [...after].map(([id, micros]) => [id, (micros - (before.get(id) ?? 0)) / result.succeeded] as const)
      return { result, threads: new Map(used) }
    }
    if (!subject.isCold) await load({ ...loop, phase: { forMs: options.warmupMs as number } })
    const plain = subject.isCold ? undefined : await timed()
    writeFileSync(path.join(folder, 'begin'), '')
    const profiled = await timed()
    writeFileSync(path.join(folder, 'end'), '')
    const { result, threads } = plain ?? profiled
    return { result, ledger: ledgerOf(subject.title, result, threads, await profilesIn(folder)) }
  })
}

async function profilesIn(folder: string): Promise<ThreadProfile[]> {
  const end = performance.now() + WRITTEN_WITHIN_MS
  const isBusy = () => readdirSync(folder).some((name) => name.endsWith('.part'))
  do await delay(1000)
  while (isBusy() && performance.now() < end)
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'))
  return files.map((name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as ThreadProfile)
}

function ledgerOf(
  title: string,
  { cpu, floor, perSecond }: Result,
  threads: ReadonlyMap<number, number>,
  profiles: readonly ThreadProfile[],
): Ledger {
  const finder = sourceFinder(OWN_ROOT)
  const shares = profiles.map((profile): ThreadShare => {
    const stacks = stacksOf(profile, finder)
    return { thread: threadOf(stacks, profile.isMain), micros: threads.get(profile.threadId) ?? 0, stacks }
  })
  const { postgres = 0, service = 0, signer = 0 } = cpu?.server ?? {}
  const others = service + signer - shares.reduce((sum, { micros }) => sum + micros, 0)
  return {
    title,
    entries: [
      ...shares.flatMap(entriesOf),
      { thread: 'helpers', category: 'others', request: undefined, micros: others },
      { thread: 'postgres', category: 'postgres', request: undefined, micros: postgres },
    ],
    functions: shares.flatMap(functionsOf),
    floorMicros: floor?.micros,
    perSecond,
  }
}
