/** A generator process: prepares, runs phases and checks downloads as its parent says, and ends with it. */

import type { Download } from '../check/certificate.ts'
import type { AcmeClient } from '../client/acme.ts'
import { RunStats } from '../measure/stats.ts'
import type { Proof } from '../scenario/challenge.ts'
import { type LoopControl, runClosedLoop } from './closed-loop.ts'
import type { FromGenerator, Phase, ToGenerator } from './messages.ts'
import { runOpenLoop } from './open-loop.ts'
import { type Prepared, prepare } from './prepare.ts'

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
