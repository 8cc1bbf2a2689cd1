/** A generator process: prepares, runs phases and checks downloads as its parent says, and ends with it. */

import { X509Certificate } from 'node:crypto'
import { AcmeClient, type ClientSettings } from '../client/acme.ts'
import { connectionMaker, Failure } from '../client/http.ts'
import { csrMaker, newKey } from '../client/jws.ts'
import { type Account, registerAccount } from '../client/resources.ts'
import { RunStats } from '../measure/stats.ts'
import { type ChainChecker, chainChecker, type Download } from '../scenario/checks.ts'
import type { Proof } from '../scenario/scenario.ts'
import { type Context, nameMaker, type Scenario, thumbprintName } from '../scenario/scenario.ts'
import { scenarioNamed } from '../scenario/table.ts'
import type { FromGenerator, GeneratorJob, Phase, ToGenerator } from './fleet.ts'
import { type LoopControl, runClosedLoop, runOpenLoop } from './loops.ts'

interface Prepared {
  clients: AcmeClient[]
  /** Flows of the closed loop among them. */
  inClosedLoop: number
  scenario: Scenario
  context: Context
  checkChain: ChainChecker
}

/**
 * Makes everything operations need before the clock starts: directory, accounts and what a scenario reads.
 *
 * @throws Failure when the server refuses what every later operation would need
 */
async function prepare(
  job: GeneratorJob,
  stats: RunStats,
  collect: (download: Download) => void,
  publish: Context['publish'],
): Promise<Prepared> {
  const { target } = job
  const settings: ClientSettings = { origin: new URL(target.directoryUrl).origin, nonces: [], stats, newNonceUrl: '' }
  const connect = connectionMaker(target)
  const count = Math.max(job.clients, job.connections)
  const clients = Array.from({ length: count }, () => new AcmeClient(connect(), settings))
  const directory = await clients[0]!.readDirectory(target.directoryUrl)

  const certificateKey = newKey()
  const accounts: Account[] = []
  const nextName = nameMaker(job.runId, target.domainSuffix)
  let turn = 0
  const context: Context = {
    target,
    directory,
    publish,
    collect,
    nextAccount: () => accounts[turn++ % accounts.length]!,
    takeAccount() {
      for (let tries = 0; tries < accounts.length; tries++) {
        const account = context.nextAccount()
        if (!account.isTaken) return Object.assign(account, { isTaken: true })
      }
      throw new Failure('accounts-busy', 'more operations at once than --accounts')
    },
    nextName: (account) => nextName(account.index),
    csrFor: csrMaker(certificateKey),
  }
  const scenario = scenarioNamed(job.scenario)
  let begun = 0
  const work = async (client: AcmeClient) => {
    while (begun < job.accounts) {
      const place = begun++
      const account = await registerAccount(client, directory, job.firstAccount + place, target.contact)
      accounts[place] = account
      if (scenario.answersChallenges) await publish({ name: thumbprintName(account.index), text: account.thumbprint })
      await scenario.prepareAccount?.(client, context, account)
    }
  }
  await Promise.all(clients.slice(0, job.clients).map(work))
  const root = target.rootCertificate === undefined ? undefined : new X509Certificate(target.rootCertificate)
  const checkChain = chainChecker(certificateKey.spki, root)
  return { clients, inClosedLoop: job.clients, scenario, context, checkChain }
}

/** 50,000 chains of about 3 KiB are 150 MB; what comes after them is checked at once, inside the measured time. */
const MAX_KEPT_DOWNLOADS = 50_000
const PROGRESS_MS = 500

const stats = new RunStats()
const checkFailures = new RunStats()
const control: LoopControl = { stopped: false }
let downloads: Download[] = []
let checked = 0
let prepared: Prepared | undefined
const publishing = new Map<number, () => void>()
let published = 0

process.on('disconnect', () => process.exit(0))
process.on('message', (message: ToGenerator) => {
  handle(message).catch((error: unknown) => {
    send({ type: 'failed', reason: error instanceof Error ? error.message : String(error) })
  })
})

async function handle(message: ToGenerator): Promise<void> {
  switch (message.type) {
    case 'prepare':
      prepared = await withProgress(() => prepare(message.job, stats, collect, publish))
      send({ type: 'prepared' })
      break
    case 'run':
      if (!prepared) throw new Error('told to run before it was prepared')
      send(await run(prepared, message.phase))
      break
    case 'stop':
      control.stopped = true
      break
    case 'published':
      publishing.get(message.number)?.()
      publishing.delete(message.number)
      break
    case 'check':
      for (const download of downloads) check(download)
      downloads = []
      send({ type: 'checked', checked, failures: checkFailures.failures })
      checked = 0
      checkFailures.reset()
  }
}

async function run({ clients, inClosedLoop, context, scenario }: Prepared, phase: Phase): Promise<FromGenerator> {
  stats.reset(phase.slotMs)
  control.stopped = false
  const before = process.cpuUsage()
  const operate = (client: AcmeClient) => scenario.operate(client, context)
  await withProgress(() =>
    'arrivals' in phase
      ? runOpenLoop(clients, phase.arrivals, operate, stats, control)
      : runClosedLoop(clients.slice(0, inClosedLoop), phase, operate, stats, control),
  )
  const { user, system } = process.cpuUsage(before)
  return { type: 'ran', stats: stats.snapshot(), cpuMicros: user + system }
}

async function withProgress<T>(work: () => Promise<T>): Promise<T> {
  const tell = () => {
    const { failed, refused, dropped } = stats.counts
    send({ type: 'progress', operations: stats.operations.totalCount, failed, refused, dropped })
  }
  const progress = setInterval(tell, PROGRESS_MS)
  try {
    return await work()
  } finally {
    clearInterval(progress)
    tell()
  }
}

/** The responders are in the parent; a challenge is not triggered before they know its proof. */
function publish(proof: Proof): Promise<void> {
  const number = published++
  send({ type: 'publish', number, proof })
  return new Promise((resolve) => publishing.set(number, resolve))
}

function collect(download: Download): void {
  if (downloads.length < MAX_KEPT_DOWNLOADS) downloads.push(download)
  else check(download)
}

function check(download: Download): void {
  checked++
  try {
    prepared?.checkChain(download)
  } catch (error) {
    checkFailures.recordFailure(error)
  }
}

function send(message: FromGenerator): void {
  process.send?.(message)
}
