/**
 * What do the records of a signer cost? CPU of the daemon for each certificate, flushes, and bytes on disk; and how long
 * does it take to page through the serial numbers of ten million, and to compare a database with them?
 *
 *     node compiled/test/load/signer-records.js sign [COUNT] [OTHER_TREE]   OTHER_TREE/dist has the daemon to compare with
 *     node compiled/test/load/signer-records.js page [COUNT]
 *     node compiled/test/load/signer-records.js compare COUNT postgres://…   a database that admin-lists.ts has filled with COUNT
 *     node compiled/test/load/signer-records.js list [ENTRIES] [OTHER_TREE]
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { appendFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { segmentName } from '../../signer/audit/line.ts'
import { CRL_PIECE_BYTES } from '../../signer/protocol/methods.ts'
import { SerialIndex } from '../../signer/records/closed-segments.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { signerRecords } from '../../src/ca/signer-records.ts'
import { SignerComparison } from '../../src/services/reconcile/signer-comparison.ts'
import { encodeCrlEntries } from '../../src/shared/pki/tbs-cert-list.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createSignerMarkStore } from '../../src/store/signer-mark-store.ts'
import { leafTbs, makeAuthority, makeKeyPair, type SignerFiles, spkiOf, writeSignerFiles } from '../signer/authority.ts'
import { SIGNER_PROGRAM } from '../signer/daemon.ts'
import { now, rawTbsList } from '../signer/raw-tbs-list.ts'
import { settingsFor } from '../store/support.ts'
import { cpuMs, residentMib } from './figures.ts'

const timeoutMs = 60_000
const IN_FLIGHT = 32
const A_SEGMENT = 6_500
const requester = () => `order ${randomUUID()} account ${randomUUID()} certificate ${randomUUID()}`

const authority = makeAuthority()

interface Running {
  pid: number
  client: SignerClient
  stop(): Promise<void>
}

async function start(files: SignerFiles, program: string): Promise<Running> {
  const child = spawn(process.execPath, [program, '-c', files.config], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => child.once('close', resolve))
  await new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (line.includes('"signer ready"')) resolve()
    })
  })
  const client = new SignerClient({ socketPath: files.socket, secret: files.secret })
  await client.call('health', {}, { timeoutMs })
  return {
    pid: child.pid!,
    client,
    async stop() {
      await client.close()
      child.kill('SIGTERM')
      await ended
    },
  }
}

async function signMany(client: SignerClient, requests: readonly Buffer[]): Promise<void> {
  let next = 0
  const loop = async () => {
    while (next < requests.length) {
      const payload = requests[next++]!
      await client.call('signCertificate', { issuer: 'default', requester: requester() }, { timeoutMs, payload })
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
}

async function measureSigning(program: string, count: number): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  const daemon = await start(files, program)
  try {
    await signMany(daemon.client, requestsOf(2_000))
    const requests = requestsOf(count)
    const [cpuBefore, before] = [cpuMs(daemon.pid), (await daemon.client.call('health', {}, { timeoutMs })).meta]
    const startedAt = performance.now()
    await signMany(daemon.client, requests)
    const seconds = (performance.now() - startedAt) / 1000
    // What is compressed in the background counts.
    while (readdirSync(files.folder).some((name) => /\.(?:new|certificates\.\d+-\d+)$/.test(name))) await sleep(100)
    const [cpu, now] = [cpuMs(daemon.pid) - cpuBefore, (await daemon.client.call('health', {}, { timeoutMs })).meta]
    const bytes = (what: RegExp) =>
      readdirSync(files.folder)
        .filter((name) => what.test(name))
        .reduce((sum, name) => sum + statSync(path.join(files.folder, name)).size, 0)
    const closed = readdirSync(files.folder).flatMap((name) => /certificates\.(\d+)-(\d+)\.gz$/.exec(name) ?? [])
    const inClosed = closed.length === 0 ? 0 : Number(closed.at(-1)) - Number(closed[1]) + 1
    console.log(program)
    console.log(`  ${((1000 * cpu) / count).toFixed(0)} µs of CPU a certificate, ${(count / seconds).toFixed(0)}/s`)
    console.log(`  ${now.auditSyncs - before.auditSyncs} groups, ${now.signatures - before.signatures} signatures`)
    console.log(`  ${(bytes(/^audit\.jsonl$/) / (count + 2_000)).toFixed(0)} bytes of chain a certificate`)
    if (inClosed > 0)
      console.log(
        `  ${(bytes(/\.(?:gz|index)$/) / inClosed).toFixed(0)} bytes of records a certificate, compressed, with index`,
      )
  } finally {
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  }
}

function requestsOf(count: number): Buffer[] {
  return Array.from({ length: count }, () => {
    const name = `${randomBytes(6).toString('hex')}.example.org`
    const spki = spkiOf(makeKeyPair('P-256').publicKey)
    return leafTbs(authority, { dnsNames: [name, `www.${name}`], spki })
  })
}

/** Indexes alone: their lines are not read. */
function writeIndexes({ auditFile }: SignerFiles, count: number, serialOf: (seq: number) => string): void {
  const nothing = gzipSync('')
  for (let first = 1; first <= count; first += A_SEGMENT) {
    const last = Math.min(count, first + A_SEGMENT - 1)
    const index = new SerialIndex()
    for (let seq = first; seq <= last; seq++) index.add(seq, 1_790_000_000, serialOf(seq))
    const segment = segmentName(`${auditFile}.certificates`, first, last)
    writeFileSync(`${segment}.index`, index.bytes)
    writeFileSync(`${segment}.gz`, nothing)
  }
  const line = { seq: count + 1, time: new Date().toISOString(), method: 'testSign', issuer: 'default', serial: '' }
  const rest = { names: [], sha256: '', requester: 'test', previous: '0'.repeat(64) }
  appendFileSync(auditFile, `${JSON.stringify({ ...line, ...rest })}\n`)
}

async function measurePaging(count: number): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  writeIndexes(files, count, () => randomBytes(16).toString('hex'))
  const startedAt = performance.now()
  const daemon = await start(files, SIGNER_PROGRAM)
  try {
    const readyAt = performance.now()
    const [cpuBefore, rssBefore] = [cpuMs(daemon.pid), residentMib(daemon.pid)]
    let [after, bytes, pages] = [0, 0, 0]
    for (let more = true; more; pages++) {
      const page = await daemon.client.call('signedSerials', { after }, { timeoutMs })
      bytes += page.payload.length
      ;({ last: after, more } = page.meta)
    }
    const ms = performance.now() - readyAt
    console.log(`ready after ${Math.round(readyAt - startedAt)} ms`)
    console.log(`${after} serial numbers in ${pages} pages, ${bytes} bytes: ${Math.round(ms)} ms`)
    console.log(
      `CPU of the signer ${cpuMs(daemon.pid) - cpuBefore} ms; memory ${rssBefore} to ${residentMib(daemon.pid)} MiB`,
    )
  } finally {
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  }
}

/** The first list after a start is recorded whole, the second adds nothing. */
async function measureList(program: string, count: number): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  const daemon = await start(files, program)
  try {
    const serials = randomBytes(count * 16)
    for (let at = 0; at < serials.length; at += 16) serials[at] = 0x40
    const revokedAt = now(-3_600_000)
    const entries = encodeCrlEntries(
      Array.from({ length: count }, (_, n) => ({
        serialNumber: serials.subarray(n * 16, n * 16 + 16),
        revokedAt,
        reason: 1,
      })),
    )
    console.log(program)
    for (const number of [1n, 2n]) {
      const tbs = rawTbsList(authority, { number, entries })
      const [cpuBefore, startedAt] = [cpuMs(daemon.pid), performance.now()]
      const begin = { issuer: 'default', requester: 'crl', bytes: tbs.length }
      const { upload } = (await daemon.client.call('beginCrl', begin, { timeoutMs })).meta
      for (let offset = 0; offset < tbs.length; offset += CRL_PIECE_BYTES) {
        const payload = tbs.subarray(offset, offset + CRL_PIECE_BYTES)
        await daemon.client.call('appendCrl', { upload, offset }, { timeoutMs, payload })
      }
      const sentAt = performance.now()
      await daemon.client.call('signCrl', { upload }, { timeoutMs })
      const [ms, lastMs] = [performance.now() - startedAt, performance.now() - sentAt].map(Math.round)
      console.log(
        `  list ${number}: ${ms} ms, of it ${lastMs} after the last piece; CPU ${cpuMs(daemon.pid) - cpuBefore} ms`,
      )
    }
    await sleep(3_000)
    const size = readdirSync(files.folder)
      .filter((name) => name.includes('.revocations'))
      .reduce((sum, name) => sum + statSync(path.join(files.folder, name)).size, 0)
    console.log(`  ${size} bytes of revocations; memory ${residentMib(daemon.pid)} MiB`)
  } finally {
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  }
}

/** The serial number that fillWithCertificates gives to the certificate of that number. */
const filledSerial = (n: number) => `10${createHash('md5').update(String(n)).digest('hex')}`
const nobody = async () => assert.fail('a certificate lacks')

async function measureComparison(count: number, url: string): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  writeIndexes(files, count, filledSerial)
  const daemon = await start(files, SIGNER_PROGRAM)
  const { hostname: host, port, username: user, pathname } = new URL(url)
  const connection = { host, port: Number(port), user, password: '', database: pathname.slice(1) }
  const db = openDatabase({ ...settingsFor(connection), statementTimeoutMs: 60_000 }, console.error)
  try {
    const records = signerRecords(daemon.client)
    const marks = createSignerMarkStore(db)
    const comparison = new SignerComparison({
      records,
      marks,
      crls: { raiseNumber: async () => undefined },
      restoration: { issuers: nobody, read: nobody, record: nobody, revocations: nobody },
      now: async () => new Date(),
      intentSeconds: 3600,
      expiredAfterDays: undefined,
      onMissing: nobody,
      onStrangeTimes: () => undefined,
      isStopping: () => false,
    })
    const state = await records.state()
    assert.ok(state)
    const cpuBefore = [cpuMs(daemon.pid), process.cpuUsage().user]
    const startedAt = performance.now()
    const { reached } = await comparison.run(state, await marks.mark(state.chain), 'restore')
    const seconds = (performance.now() - startedAt) / 1000
    assert.equal(reached, count)
    console.log(
      `${count} certificates compared in ${seconds.toFixed(1)} s, ${((1e6 * seconds) / count).toFixed(1)} µs each`,
    )
    const own = (process.cpuUsage().user - (cpuBefore[1] ?? 0)) / 1000
    console.log(`CPU of the signer ${cpuMs(daemon.pid) - (cpuBefore[0] ?? 0)} ms, of the service ${Math.round(own)} ms`)
  } finally {
    await db.close()
    await daemon.stop()
    rmSync(files.folder, { recursive: true })
  }
}

const [what, count, other] = process.argv.slice(2)
const programs = [...(other === undefined ? [] : [path.join(other, 'dist/signer/start.cjs')]), SIGNER_PROGRAM]
if (what === 'sign') {
  // Interleaved, so that a change of the machine meets both.
  for (let round = 0; round < 2; round++)
    for (const program of programs) await measureSigning(program, Number(count ?? 20_000))
} else if (what === 'compare') await measureComparison(Number(count), other ?? '')
else if (what === 'page') await measurePaging(Number(count ?? 10_000_000))
else if (what === 'list') for (const program of programs) await measureList(program, Number(count ?? 1_000_000))
else throw new Error('sign, page, compare or list')
