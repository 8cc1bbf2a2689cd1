/**
 * How many certificates can one daemon sign, and what does one cost either side? A script, not a test:
 *
 *     node dist/test/signer/throughput.js [P-256] [seconds per step]
 *
 * One client connection, 1 to 64 requests in flight, real daemon process, audit chain with fdatasync on the disk of
 * the temporary folder, requests distinct. CPU of the daemon is read from /proc, so this runs on Linux only.
 */

import { readFileSync, rmSync } from 'node:fs'
import { createSignerBackend } from '../../src/ca/signer-backend.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { type AuthorityKind, leafTbs, makeAuthority, writeSignerFiles } from './authority.ts'
import { startDaemon } from './daemon.ts'

const TICK_US = 10_000
const kind = (process.argv[2] ?? 'P-256') as AuthorityKind
const seconds = Number(process.argv[3] ?? 3)

/** utime + stime of all threads (proc(5), fields 14 and 15). */
function cpuMicros(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_US
}

async function measure(inFlight: number, one: () => Promise<unknown>, pid: number, syncs: () => Promise<number>) {
  const end = performance.now() + seconds * 1000
  const latencies: number[] = []
  const before = { daemon: cpuMicros(pid), client: process.cpuUsage(), at: performance.now(), syncs: await syncs() }
  const loop = async () => {
    while (performance.now() < end) {
      const startedAt = performance.now()
      await one()
      latencies.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
  const wall = (performance.now() - before.at) / 1000
  const client = process.cpuUsage(before.client)
  latencies.sort((a, b) => a - b)
  const count = latencies.length
  return {
    inFlight,
    perSecond: Math.round(count / wall),
    daemonCpuUs: Math.round((cpuMicros(pid) - before.daemon) / count),
    clientCpuUs: Math.round((client.user + client.system) / count),
    linesPerSync: Number((count / ((await syncs()) - before.syncs)).toFixed(1)),
    p50Ms: Number(latencies[count >> 1]!.toFixed(2)),
    p99Ms: Number(latencies[Math.floor(count * 0.99)]!.toFixed(2)),
  }
}

const authority = makeAuthority(kind)
const files = writeSignerFiles({ default: authority })
const daemon = await startDaemon(files.config, process.env['DAEMON_NODE_OPTIONS']?.split(' ') ?? [])
const pid = daemon.process.pid!
const client = new SignerClient({ socketPath: files.socket, secret: files.secret })
const backend = createSignerBackend({ socketPath: files.socket, secret: files.secret })
const syncs = async () => (await client.call('health', {}, { timeoutMs: 5000 })).meta.auditSyncs
try {
  const tbs = Array.from({ length: 64 }, (_, index) => leafTbs(authority, { dnsNames: [`host-${index}.example.org`] }))
  let next = 0
  const pick = () => tbs[next++ % tbs.length]!
  const params = { issuer: 'default', requester: '0190b6c1-8a1e-7000-8000-000000000000' }
  const raw = () => client.call('signCertificate', params, { timeoutMs: 5000, payload: pick() })
  const verified = () => backend.signCertificate('default', pick(), { timeoutMs: 5000, requester: params.requester })
  await measure(16, raw, pid, syncs)
  for (const [name, one] of [
    ['signature only', raw],
    ['certificate, verified', verified],
  ] as const) {
    console.log(`${kind}, ${name}`)
    const rows = []
    for (const inFlight of [1, 4, 16, 64]) rows.push(await measure(inFlight, one, pid, syncs))
    console.table(rows)
  }
} finally {
  await client.close()
  await backend.close()
  await daemon.stop()
  rmSync(files.folder, { recursive: true })
}
