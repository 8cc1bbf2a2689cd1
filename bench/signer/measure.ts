/** Signatures per second of a signer that is kept busy, what one costs, and which part could not go faster. */

import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { SignerClient } from '../../src/ca/signer-client.ts'
import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { buildTbsCertificate } from '../../src/shared/pki/tbs-certificate.ts'
import { parseProcStat, TICKS_PER_SECOND } from '../measure/proc-stat.ts'
import type { RunningSigner } from './place.ts'

export interface SignerFigures {
  perSecond: number
  p50Ms: number
  p99Ms: number
  /** CPU of the signer for one signature, all threads. */
  signerMicros: number
  clientMicros: number
  /** Share of a core that the signer's JavaScript thread was busy, and cores its other threads used. */
  mainThread: number
  otherThreads: number
  /** Share of all cores that was busy, with whatever else ran. */
  machine: number
}

export interface MeasureOptions {
  inFlight: number
  warmupMs: number
  durationMs: number
  signal: AbortSignal
}

/** Of the machine, also when the bench is bound to some of them. */
const PROCESSORS = cpus().length
const TIMEOUT_MS = 30_000
const DAY_MS = 86_400_000
const DISTINCT = 256

/**
 * A closed loop over one connection: as many requests under way as `inFlight` says, each with names of its own.
 * @throws the signal's reason; half a measurement is none.
 */
export async function measureSigner(signer: RunningSigner, options: MeasureOptions): Promise<SignerFigures> {
  const client = new SignerClient({ socketPath: signer.socketPath, secret: signer.secret })
  try {
    const requests = await buildRequests(client, signer)
    await runFor(options.warmupMs, options, requests, client)
    const before = readCpu(signer.pid)
    const own = process.cpuUsage()
    const idle = idleMillis()
    const startedAt = performance.now()
    const latencies = await runFor(options.durationMs, options, requests, client)
    const seconds = (performance.now() - startedAt) / 1000
    const machine = 1 - (idleMillis() - idle) / 1000 / seconds / PROCESSORS
    const used = process.cpuUsage(own)
    const after = readCpu(signer.pid)
    const main = (after.main - before.main) / TICKS_PER_SECOND
    const all = (after.all - before.all) / TICKS_PER_SECOND
    latencies.sort((a, b) => a - b)
    const count = latencies.length
    return {
      perSecond: count / seconds,
      p50Ms: latencies[count >> 1] ?? 0,
      p99Ms: latencies[Math.floor(count * 0.99)] ?? 0,
      signerMicros: (all / count) * 1e6,
      clientMicros: (used.user + used.system) / count,
      mainThread: main / seconds,
      otherThreads: (all - main) / seconds,
      machine,
    }
  } finally {
    await client.close()
  }
}

async function buildRequests(client: SignerClient, { socketPath, secret }: RunningSigner): Promise<Buffer[]> {
  const described = new Promise<{ algorithm: string; certificate: Buffer }>((resolve) => {
    const asking = new SignerClient({
      socketPath,
      secret,
      onConnect({ issuers }) {
        resolve({ algorithm: issuers[0]!.algorithm, certificate: issuers[0]!.chain[0]! })
        setImmediate(() => void asking.close())
      },
    })
  })
  const { algorithm, certificate } = await described
  await client.call('health', {}, { timeoutMs: TIMEOUT_MS })
  const { tbs } = parseCertificate(certificate)
  const notBefore = new Date(Math.floor(Date.now() / 1000) * 1000)
  return Array.from({ length: DISTINCT }, (_, index) =>
    buildTbsCertificate({
      serialNumber: Buffer.concat([Buffer.of(1), randomBytes(15)]),
      issuerNameDer: tbs.subjectDer,
      authorityKeyIdentifier: tbs.subjectKeyIdentifier!,
      signatureAlgorithm: algorithm as SignatureAlgorithm,
      notBefore,
      notAfter: new Date(notBefore.getTime() + 7 * DAY_MS - 1000),
      // The key that is certified matters to nobody here; the issuer's own is at hand.
      spki: tbs.spki.der,
      dnsNames: [`host-${index}.bench.test`],
      ipAddresses: [],
      keyUsages: ['digital_signature'],
      extendedKeyUsages: ['server_auth'],
    }),
  )
}

/** @returns milliseconds of each signature. @throws what the signer answered instead of one; the signal's reason */
async function runFor(
  durationMs: number,
  { inFlight, signal }: MeasureOptions,
  requests: readonly Buffer[],
  client: SignerClient,
) {
  const latencies: number[] = []
  const end = performance.now() + durationMs
  let next = 0
  async function loop(): Promise<void> {
    while (performance.now() < end) {
      signal.throwIfAborted()
      const payload = requests[next++ % requests.length]!
      const startedAt = performance.now()
      await client.call('signCertificate', { issuer: 'bench', requester: 'bench' }, { timeoutMs: TIMEOUT_MS, payload })
      latencies.push(performance.now() - startedAt)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, loop))
  return latencies
}

/** Clock ticks of the thread that runs JavaScript, which has the number of the process, and of all threads. */
function readCpu(pid: number): { main: number; all: number } {
  const stat = (file: string) => parseProcStat(readFileSync(file, 'latin1')).ownTicks
  const threads = readdirSync(`/proc/${pid}/task`)
  if (!threads.includes(String(pid))) throw new Error(`process ${pid} has ended`)
  return { main: stat(`/proc/${pid}/task/${pid}/stat`), all: stat(`/proc/${pid}/stat`) }
}

const idleMillis = () => cpus().reduce((sum, { times }) => sum + times.idle, 0)

/**
 * What could not go faster. A key that signs in place works in the JavaScript thread; sessions sign in threads of their own,
 * until the machine has no core left or the token's library lets only one of them in at a time. What a session waits for the
 * JavaScript thread, which begins each of its operations, shows as a session that is not busy.
 */
export function nameLimit(figures: SignerFigures, sessions: number | undefined): string {
  const { mainThread, otherThreads, clientMicros, perSecond, machine } = figures
  const client = (clientMicros * perSecond) / 1e6
  const ours = mainThread + otherThreads + client
  if (machine > 0.9 && ours < 0.75 * PROCESSORS) return 'others on this machine: measure again'
  if (mainThread > 0.85) return "the signer's JavaScript thread"
  if (client > 0.85) return 'the bench itself'
  if (machine > 0.9) return 'the cores of the machine'
  if (sessions === undefined)
    return otherThreads > mainThread ? 'the threads for key files' : 'the disk of the audit chain'
  if (otherThreads > 0.85 * sessions) return `${sessions} busy session${sessions > 1 ? 's' : ''}`
  return sessions === 1 ? 'the way to and from the one session' : "waits in the token's library"
}
