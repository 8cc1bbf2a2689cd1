/**
 * How long does a CRL of a million entries take, how much memory, and what do other requests notice of it?
 *
 * `node compiled/test/load/crl-million.js [ENTRIES]` starts a service of its own (PostgreSQL without fsync, two front threads, the
 * development CA), puts that many revoked certificates into its database, and measures: the build, as the service logs
 * it; peak memory of service and signer, from the kernel; and signed requests at a steady rate, before the build, while
 * it runs, and while eight clients download the list.
 */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { type AcmeClient, closeConnections, registeredClient } from '../support/acme-client.ts'
import { insertRevoked } from '../support/revoked.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { words } from '../support/words.ts'
import { cpuMs, quantile, residentMib } from './figures.ts'

const ENTRIES = Number(process.argv[2] ?? 1_000_000)
const REQUESTS_PER_SECOND = 50
const CALM_MS = 20_000
const DOWNLOADS = 8
/** Of each, so that they take a few seconds: bytes a second. */
const DOWNLOAD_RATE = '8M'
const BUILD_TIMEOUT_MS = 600_000

const service = await startTestService({ config: { crl: { enabled: true } } })
try {
  await measure(service)
} finally {
  closeConnections()
  await service.dispose()
}

async function measure({ database, directoryUrl, process: child, signerPid }: TestService): Promise<void> {
  const client = await registeredClient(directoryUrl)
  const pids = { service: child.pid as number, signer: signerPid() }
  report('before the build', await probe(client, sleep(CALM_MS)))

  const [{ der } = { der: Buffer.alloc(0) }] = decodePem(readFileSync(service.ca.intermediate, 'utf8'))
  const before = resetPeaks(pids)
  const startedAt = performance.now()
  const inserting = insertRevoked(database.connection, fingerprintSha256(der), ENTRIES)
  await inserting
  const cpuBefore = cpuOf(pids)
  console.log(`${ENTRIES} revoked certificates inserted in ${seconds(startedAt)} s`)
  report('while the list is built', await probe(client, untilPublished()))
  const built = service.log.findLast(({ message }) => message === 'CRL published')
  console.log(
    `built and signed in ${Number(built?.['ms']) / 1000} s: ${built?.['entries']} entries, ${built?.['bytes']} bytes`,
  )
  const cpu = Object.entries(cpuOf(pids)).map(
    ([name, spent]) => `${name} ${(spent - (cpuBefore[name] ?? 0)).toFixed(1)} s`,
  )
  console.log(`CPU meanwhile, the requests included: ${cpu.join(', ')}`)
  await sleep(3_000)
  for (const [name, pid] of Object.entries(pids)) {
    console.log(
      `${name}: resident ${before[name]} MB before, peak ${residentMib(pid, 'VmHWM')} MB, now ${residentMib(pid)} MB`,
    )
  }

  const downloadedAt = performance.now()
  const downloads = Promise.all(Array.from({ length: DOWNLOADS }, download))
  report('while it is downloaded', await probe(client, downloads))
  console.log(`${DOWNLOADS} downloads at once: ${seconds(downloadedAt)} s, ${(await downloads)[0]} bytes each`)
}

async function untilPublished(): Promise<void> {
  const deadline = performance.now() + BUILD_TIMEOUT_MS
  while (!service.log.some(({ message, entries }) => message === 'CRL published' && entries === ENTRIES)) {
    assert.ok(performance.now() < deadline, 'the list is published in time')
    await sleep(50)
  }
}

/** Signed requests at a steady rate, whether or not the one before has been answered, until `work` is done. @returns milliseconds each */
async function probe(client: AcmeClient, work: Promise<unknown>): Promise<number[]> {
  const waits: number[] = []
  const open: Promise<void>[] = []
  let over = false
  const done = work.finally(() => {
    over = true
  })
  for (let sent = 0, startedAt = performance.now(); !over; sent++) {
    const dueAt = startedAt + (sent * 1000) / REQUESTS_PER_SECOND
    await sleep(Math.max(0, dueAt - performance.now()))
    open.push(readAccount(client, waits))
  }
  await Promise.all(open)
  await done
  return waits
}

/** The signing of the client is not timed, the reply to it is: a nonce, then a read of the account. */
async function readAccount(client: AcmeClient, waits: number[]): Promise<void> {
  const jws = await client.jws(client.kid, { payload: undefined })
  const startedAt = performance.now()
  const { status } = await fetch(client.kid, {
    method: 'POST',
    headers: { 'Content-Type': 'application/jose+json' },
    body: JSON.stringify(jws),
  })
  assert.equal(status, 200)
  waits.push(performance.now() - startedAt)
}

/** By a program of its own, so that what it takes from this one's thread is nobody's latency. @returns bytes */
async function download(): Promise<number> {
  const args = words`-sS --limit-rate ${DOWNLOAD_RATE} -o /dev/null -w %{size_download}`
  const { code, output } = await runCommand('curl', [...args, `${service.baseUrl}/crl`])
  assert.equal(code, 0, output)
  return Number(output)
}

function report(when: string, waits: number[]): void {
  const at = (share: number) => quantile(waits, share).toFixed(1)
  console.log(
    `signed reads ${when}: ${waits.length}, median ${at(0.5)} ms, p95 ${at(0.95)}, p99 ${at(0.99)}, longest ${at(1)}`,
  )
}

function seconds(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1)
}

/** In seconds. */
function cpuOf(pids: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuMs(pid) / 1000]))
}

/** The kernel counts the peak from here on. @returns megabytes now */
function resetPeaks(pids: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(pids).map(([name, pid]) => {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
      return [name, residentMib(pid)]
    }),
  )
}
