/** What the tests of validators share: closing what they start, fixed addresses, silent hosts, assertions about verdicts. */

import assert from 'node:assert/strict'
import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { DnsSettings, EvidenceStep, ValidationVerdict } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import { undisturbed } from '../support/until.ts'
import { kept, type Script, startDns } from './scripted-dns.ts'
import { startRaw, startSecureWeb, startWeb } from './scripted-web.ts'

/** Beyond the time of a test file: who waits for it does not come to an end. */
export const FOR_EVER_MS = 3_600_000

/** Servers of `scripted-web.ts` that close at the end of the test. */
export const keptWeb = (t: TestContext, ...how: Parameters<typeof startWeb>) => kept(t, startWeb(...how))
export const keptSecureWeb = (t: TestContext, ...how: Parameters<typeof startSecureWeb>) =>
  kept(t, startSecureWeb(...how))
export const keptRaw = (t: TestContext, ...how: Parameters<typeof startRaw>) => kept(t, startRaw(...how))
/** Takes connections and says nothing. */
export const keptSilent = (t: TestContext, ...where: [host?: string, port?: number]) => keptRaw(t, () => {}, ...where)

/** Every name below `test` has these addresses. */
export const fixed = (...addresses: string[]): DnsSettings => ({
  resolvers: [],
  zones: [{ zone: 'test', addresses }],
  timeoutMs: WAIT_MS,
  retries: 2,
})

/** Names are answered by a scripted server. */
export async function dnsOf(t: TestContext, script: Script): Promise<DnsSettings> {
  const { resolver } = await kept(t, startDns(script))
  return { resolvers: [resolver], zones: [], timeoutMs: WAIT_MS, retries: 2 }
}

export function assertValid(verdict: ValidationVerdict): void {
  assert.equal(verdict.ok, true, JSON.stringify(verdict))
}

export function assertInvalid(verdict: ValidationVerdict, problem: string, retryable: boolean, detail: RegExp): void {
  assert.ok(!verdict.ok, 'the verdict is good')
  assert.deepEqual([verdict.problem, verdict.retryable], [problem, retryable], JSON.stringify(verdict))
  assert.match(verdict.detail, detail)
}

/** An attempt that `timeoutMs` ends, and nothing else. It is repeated where this process stood still meanwhile. */
export async function assertEndsAfter(
  timeoutMs: number,
  attempt: () => Promise<ValidationVerdict>,
  assertVerdict: (verdict: ValidationVerdict) => void,
): Promise<void> {
  await undisturbed(async () => {
    const startedAt = performance.now()
    assertVerdict(await attempt())
    const ms = performance.now() - startedAt
    assert.ok(ms >= timeoutMs - 20, `${ms} ms`)
  })
}

export const stepsOf = (verdict: ValidationVerdict, step: string): EvidenceStep[] =>
  verdict.evidence.filter((entry) => entry.step === step)

/** Timers and sockets of this process. */
export const openResources = (): number =>
  process.getActiveResourcesInfo().filter((name) => /Timeout|TCPSocket|TLS|UDP/.test(name)).length

/** Waits for the other ends, which are of this process too and take a moment to hear that a connection is over. */
export async function assertNothingMoreOpen(before: number): Promise<void> {
  // A pause shows as a timer only while it lasts.
  for (let looks = 0; looks < 100 && openResources() > before; looks++) await sleep(100)
  assert.ok(openResources() <= before, `${openResources()} after, ${before} before`)
}

/** Listens with the smallest backlog and never accepts, so that the kernel drops further handshakes. */
export async function startBlackHole(t: TestContext, host: string, port: number): Promise<void> {
  const source = `
    const { createServer } = require('node:net')
    const { parentPort, workerData: { host, port } } = require('node:worker_threads')
    const server = createServer().listen({ host, port, backlog: 1 }, () => {
      parentPort.postMessage('listening')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`
  const worker = new Worker(source, { eval: true, workerData: { host, port } })
  await new Promise((resolve) => worker.once('message', resolve))
  const fillers = Array.from({ length: 4 }, () => connect({ host, port }).on('error', () => {}))
  await sleep(50)
  t.after(async () => {
    for (const filler of fillers) filler.destroy()
    await worker.terminate()
  })
}
