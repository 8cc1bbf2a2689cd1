/** Conducts a run: load, faults as planned, recovery of each, and the books in the end. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Proofs } from '../responder/responders.ts'
import { type Acting, startActing } from './acting.ts'
import { startReading } from './administrator.ts'
import { type Books, checkBooks } from './books.ts'
import { type Clients, type Incident, type LoadOptions, startClients } from './clients.ts'
import type { Checked } from './kinds/kind.ts'
import { KINDS } from './kinds/table.ts'
import { watchLists } from './list-watch.ts'
import { chanceFrom } from './random.ts'
import type { Planned } from './schedule.ts'
import { type Soak, soak } from './soak.ts'
import type { Stand } from './stand.ts'

/** Instants are milliseconds of this machine's clock. */
export interface Happened {
  kind: string
  target: string
  plannedAt: number
  beganAt: number
  endedAt: number
  /** From the end until a flow that began after it has succeeded and all is ready; undefined when that was never. */
  recoveryMs: number | undefined
  /** The longest time without a certificate for any client, from the beginning to recovery. */
  silenceMs: number
}

export interface Run {
  startedAt: number
  endedAt: number
  faults: Happened[]
  /** Parts that ended though no fault explains it. */
  deaths: { part: string; at: number }[]
  flows: readonly { begunAt: number; at: number }[]
  soak: Soak | undefined
  acts: Acts | undefined
  books: Books
}

export interface Acts {
  /** Answered with success. */
  restricting: number
  permitting: number
  /** Over all promotions, as in `Checked`. */
  restored: number
  told: number
}

export interface RunOptions {
  planned: readonly Planned[]
  load: LoadOptions
  overlap: boolean
  /** Seconds of load without faults, before them. */
  soakSeconds: number | undefined
  /** For recovery of each fault, and for what was begun to end. */
  boundMs: number
  interrupt: AbortSignal
  tell(line: string): void
}

/** The load runs undisturbed for so long before the first fault and after the last one. */
const CALM_MS = 3_000
const LOOK_MS = 50
/** The closed loop before a soak finds the highest rate. */
const WARMUP_MS = 20_000
const MEASURED_MS = 20_000
/** Certificates among which the first after a fault must be; looks follow each other quickly. */
const LATEST = 1_000

export async function conduct(stand: Stand, options: RunOptions): Promise<Run> {
  const { planned, load, overlap, boundMs, interrupt, tell } = options
  const list = watchLists(stand.instances.map(({ port }) => port))
  const proofs: Proofs = new Map()
  const clients = await startClients(stand, load, proofs)
  try {
    await recovered(stand, clients, Date.now(), boundMs)
    await sleep(CALM_MS)
    const soaked =
      options.soakSeconds === undefined ? undefined : await soakAtHalf(stand, clients, options.soakSeconds, options)
    const acting = soaked ? undefined : await startActing(stand, proofs)
    const startedAt = soaked?.startedAt ?? Date.now()
    const checks: Checked[] = []
    const faults: Promise<Happened>[] = []
    for (const fault of planned) {
      // Rejects when the run is interrupted; the loop ends then.
      await sleep(startedAt + 1000 * fault.at - Date.now(), undefined, { signal: interrupt }).catch(() => undefined)
      if (interrupt.aborted) break
      const happening = happen({ stand, clients, acting, checks }, fault, startedAt, boundMs)
      faults.push(happening)
      if (!overlap) tell(described(faults.length, planned.length, await happening))
    }
    const happened = await Promise.all(faults)
    await sleep(CALM_MS)
    tell('the books: waiting for what was begun')
    await acting?.end()
    const left = await clients.finish(boundMs)
    const books = await checkBooks({ stand, clients, list, boundMs })
    books.findings.push(...checks.flatMap(({ findings }) => findings))
    const complained = [...(soaked?.complaints ?? []), ...(acting?.complaints ?? [])]
    books.findings.push(...left.map((incident) => ({ trouble: 'stuck' as const, ...incident })))
    books.findings.push(...complained.map((incident) => ({ trouble: 'error' as const, ...incident })))
    const deaths = stand.parts.flatMap(({ name, deaths }) =>
      deaths.map((at) => ({ part: name, at: at.getTime() })).filter(({ at }) => !mayEndAt(at, happened)),
    )
    const flows = clients.held.map(({ begunAt, at }) => ({ begunAt, at }))
    return {
      startedAt,
      endedAt: Date.now(),
      faults: happened,
      deaths,
      flows,
      soak: soaked?.soak,
      acts: acting && actsOf(acting, checks),
      books,
    }
  } finally {
    list.end()
    await clients.close()
  }
}

/** A closed loop finds the maximum first. Beside the clients an administrator reads. */
async function soakAtHalf(
  stand: Stand,
  clients: Clients,
  seconds: number,
  { load, interrupt, tell }: RunOptions,
): Promise<{ startedAt: number; soak: Soak; complaints: readonly Incident[] }> {
  clients.pace(undefined)
  await sleep(WARMUP_MS)
  const before = clients.held.length
  await sleep(MEASURED_MS)
  const perSecond = (500 * (clients.held.length - before)) / MEASURED_MS
  tell(`half of the maximum of ${load.clients} clients: ${perSecond.toFixed(1)} certificates a second`)
  clients.pace(perSecond)
  const reading = await startReading(stand)
  const startedAt = Date.now()
  const soaked = await soak(stand, clients.held, { seconds, perSecond, interrupt })
  await reading.stop()
  return { startedAt, soak: soaked, complaints: reading.complaints }
}

/** Whether the fault of that time lets parts end by themselves. */
function mayEndAt(at: number, happened: readonly Happened[]): boolean {
  const fault = happened.findLast(({ beganAt }) => beganAt <= at)
  return fault !== undefined && KINDS[fault.kind]?.mayEnd === true
}

function actsOf({ done }: Acting, checks: readonly Checked[]): Acts {
  const sum = (what: 'restored' | 'told') => checks.reduce((total, one) => total + (one[what] ?? 0), 0)
  return { ...done, restored: sum('restored'), told: sum('told') }
}

interface Scene {
  stand: Stand
  clients: Clients
  acting: Acting | undefined
  checks: Checked[]
}

async function happen(
  { stand, clients, acting, checks }: Scene,
  { kind, at, share, seed }: Planned,
  startedAt: number,
  boundMs: number,
): Promise<Happened> {
  const { lasts, begin, promotes } = KINDS[kind]!
  const beganAt = Date.now()
  const { target, end, check, repair } = await begin(stand, chanceFrom(seed))
  await sleep(1000 * (lasts[0] + share * (lasts[1] - lasts[0])))
  if (promotes) await acting?.pause()
  await end()
  const endedAt = Date.now()
  if (promotes) {
    const undone = (await acting?.resumeSigning(boundMs)) ?? []
    checks.push({ findings: undone.map((incident) => ({ trouble: 'undone', ...incident })) })
  }
  const recoveryMs = await recovered(stand, clients, endedAt, boundMs)
  const silenceMs = longestSilence(clients, beganAt)
  if (check) checks.push(await check(boundMs))
  if (promotes) acting?.resume()
  await repair?.()
  await stand.makeWhole(boundMs)
  return { kind, target, plannedAt: startedAt + 1000 * at, beganAt, endedAt, recoveryMs, silenceMs }
}

/** @returns after how many milliseconds; undefined when it was not within the bound */
async function recovered(stand: Stand, { held }: Clients, since: number, boundMs: number): Promise<number | undefined> {
  let readyAt: number | undefined
  for (;;) {
    if (readyAt === undefined && (await stand.isReady())) readyAt = Date.now()
    const first = held.slice(-LATEST).find(({ begunAt }) => begunAt >= since)
    if (readyAt !== undefined && first) return Math.max(first.at, readyAt) - since
    if (Date.now() > since + boundMs) return undefined
    await sleep(LOOK_MS)
  }
}

function longestSilence({ held }: Clients, since: number): number {
  const times = [since, ...held.map(({ at }) => at).filter((at) => at > since), Date.now()]
  return times.slice(1).reduce((longest, at, index) => Math.max(longest, at - times[index]!), 0)
}

function described(count: number, total: number, { kind, target, recoveryMs, beganAt, endedAt }: Happened): string {
  const recovery = recoveryMs === undefined ? 'no recovery' : `recovery ${(recoveryMs / 1000).toFixed(1)} s`
  return `${count}/${total} ${kind} (${target}), ${((endedAt - beganAt) / 1000).toFixed(1)} s, ${recovery}`
}
