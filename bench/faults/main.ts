#!/usr/bin/env node
/** `npm run faults`: a whole installation under load, faults from a seed, and the books afterwards. */

import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { command, isGiven, option, optional, runProgram } from '../../src/shared/command-line.ts'
import { integer, number, output, someOf } from '../flags.ts'
import { Interrupted, interruptBySignals } from '../surroundings.ts'
import { conduct } from './conduct.ts'
import { documentOf, isGood } from './document.ts'
import { KINDS, POSSIBLE } from './kinds/table.ts'
import { renderPage, renderText } from './report.ts'
import { planFaults } from './schedule.ts'
import { startStand } from './stand.ts'

const IN_NAMESPACE = 'CHANCERY_FAULTS_NAMESPACE'
const isRoot = process.getuid?.() === 0

const FAULTS = command({
  usage: '',
  about: [
    'Faults under load, and the books afterwards.',
    '',
    'Starts two instances, a balancer, a signer, PostgreSQL with a replica, a name server, a mail server and a receiver',
    'of webhooks. Does to them what a seed says, while clients obtain and revoke certificates. Exits with 1 when anything',
    'was lost, doubled, stuck, answered with 500, undone, untold or unseen.',
  ],
  options: {
    seed: option('Number that decides which faults come when', integer(1, 2_147_483_646), 1),
    faults: option('How many', integer(1, 100_000), 100),
    duration: option('Time for all of them: 90s, 60m or 10h', readDuration, '60m'),
    kinds: optional('Kinds of fault, with commas between (default: all that are possible here)', someOf(POSSIBLE)),
    overlap: isGiven('Begin a fault when its time has come, though others are not recovered from'),
    clients: option('ACME clients', integer(1, 1_000), 8),
    rate: option('Certificates that they begin in a second', number(0.01, 10_000), 8),
    bound: option('Seconds in which each fault must be recovered from', integer(1, 3_600), 120),
    list: isGiven('Show the kinds of fault, and the plan of this seed'),
    soak: optional('Load without faults for so long, at half of the maximum, such as 60m', readDuration),
    json: optional('File to write the results to', output),
    html: optional('File to write a report with a line of time to', output),
    keep: isGiven('Keep the folder with logs and data'),
  },
  examples: [
    '--seed 7 --faults 100 --duration 60m --html faults.html',
    '--soak 60m --html soak.html',
    '--kinds kill-primary,kill-signer --faults 10 --duration 5m',
  ],
  async run(values) {
    const { seed, faults, duration, kinds = POSSIBLE, overlap, clients, rate, bound, soak, json, html, keep } = values
    const planned = soak === undefined ? planFaults({ seed, faults, duration, kinds }) : []
    if (values.list) {
      for (const [name, { about, impossible }] of Object.entries(KINDS))
        console.log(`${name.padEnd(30)} ${about}${impossible ? ` (not here: ${impossible})` : ''}`)
      for (const { kind, at } of planned) console.log(`${at.toFixed(1).padStart(8)} s  ${kind}`)
      return 0
    }
    const interrupt = interruptBySignals()
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-faults-'))
    // The user of PostgreSQL has to get through.
    chmodSync(folder, 0o755)
    console.log(`logs and data in ${folder}`)
    const stand = await startStand(folder)
    try {
      const load = { clients, perSecond: rate, readsRenewalInfo: soak !== undefined }
      const waits = { soakSeconds: soak, boundMs: 1000 * bound, interrupt }
      const options = { planned, load, overlap, ...waits, tell: console.log }
      const document = documentOf(process.argv.slice(2), seed, await conduct(stand, options))
      if (json !== undefined) writeFileSync(json, `${JSON.stringify(document, null, 2)}\n`)
      if (html !== undefined) writeFileSync(html, renderPage(document))
      console.log(renderText(document))
      if (interrupt.reason instanceof Interrupted) return interrupt.reason.exitCode
      return isGood(document) ? 0 : 1
    } finally {
      await stand.stop()
      if (!keep) rmSync(folder, { recursive: true, force: true })
    }
  },
})

function readDuration(text: string): number {
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)(s|m|h)$/.exec(text) ?? []
  const seconds = Number(digits) * { s: 1, m: 60, h: 3_600 }[unit as 's' | 'm' | 'h']
  if (seconds > 0) return seconds
  throw new Error('must look like 90s, 60m or 10h')
}

if (isRoot && process.env[IN_NAMESPACE] === undefined) {
  // Disks that can be full are mounts, which nobody else sees and which end with the run.
  const words = ['--mount', '--propagation', 'private', process.execPath, fileURLToPath(import.meta.url)]
  const { status } = spawnSync('unshare', [...words, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...process.env, [IN_NAMESPACE]: '1' },
  })
  process.exitCode = status ?? 1
} else await runProgram({ name: 'faults', version: '', commands: [FAULTS] }, process.argv.slice(2))
process.exit()
