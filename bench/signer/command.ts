/** `npm run bench -- signer`: the signer alone, its keys in files and in SoftHSM tokens. */

import { cpus } from 'node:os'
import { unlessInterrupted } from '../interrupt.ts'
import type { OutputFiles } from '../options/outputs.ts'
import { type Flag, type Raw, Reader } from '../options/reader.ts'
import type { Grid } from '../report/grid.ts'
import { measureSigner, nameLimit, type SignerFigures } from './measure.ts'
import { type BenchKeyType, type KeyPlace, SignerPlace } from './place.ts'

export const SIGNER_FLAGS: readonly Flag[] = [
  ['types', 'Key types, in turn: P-256, P-384, RSA-2048, RSA-4096', 'P-256,RSA-2048'],
  ['sessions', 'Sessions with the token, in turn; 0 is a key file', '0,1,4,16'],
  ['in-flight', 'Requests under way at once', 32],
  ['duration', 'Seconds to measure each', 5],
  ['warmup', 'Seconds to run before measuring', 1],
  ['library', 'SoftHSM library', '/usr/lib/softhsm/libsofthsm2.so'],
  ['json', 'File to write the results to'],
  ['html', 'File to write a report to'],
]

const TYPES: readonly BenchKeyType[] = ['P-256', 'P-384', 'RSA-2048', 'RSA-4096']
const MAX_SESSIONS = 32
const MAX_IN_FLIGHT = 1024

/** One key, measured. */
export interface SignerRow extends SignerFigures {
  type: BenchKeyType
  /** With a token; 0 is a key file. */
  sessions: number
  /** For people: what could not go faster. */
  limitedBy: string
}

/**
 * @param signal Ends it; the measurement under way is given up.
 * @returns rows and where they are to be written. @throws SignerBenchUsage naming the option that is wrong
 */
export async function benchSigner(
  raw: Raw,
  write: (line: string) => void,
  signal: AbortSignal,
): Promise<{ rows: SignerRow[]; files: OutputFiles }> {
  const places = readPlaces(raw)
  const files = readFiles(raw)
  const inFlight = readNumber(raw, 'in-flight', 1, MAX_IN_FLIGHT)
  const durationMs = 1000 * readNumber(raw, 'duration', 0.1, 600)
  const warmupMs = 1000 * readNumber(raw, 'warmup', 0, 60)
  write(
    `signatures over one connection, ${inFlight} requests in flight; ${durationMs / 1000} s each after ${warmupMs / 1000} s of warm-up`,
  )
  write(`Node ${process.versions.node}; ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`)
  write('')
  write(line(COLUMNS))
  const rows: SignerRow[] = []
  const place = new SignerPlace(String(raw['library']))
  const measureAll = async () => {
    for (const key of places) {
      const signer = await place.start(key, signal)
      try {
        const figures = await measureSigner(signer, { inFlight, warmupMs, durationMs, signal })
        const limitedBy = nameLimit(figures, key.sessions)
        const row = { type: key.type, sessions: key.sessions ?? 0, ...figures, limitedBy }
        rows.push(row)
        write(line(cells(row)))
      } finally {
        await signer.stop()
      }
    }
  }
  await unlessInterrupted(measureAll()).finally(() => place.remove())
  return { rows, files }
}

const COLUMNS = [
  ...['key', 'per second', 'p50 ms', 'p99 ms', 'signer µs', 'main %', 'others %', 'client µs', 'machine %'],
  'limited by',
]

export function signerGrid(rows: readonly SignerRow[]): Grid {
  return { columns: COLUMNS, rows: rows.map(cells) }
}

export class SignerBenchUsage extends Error {
  override readonly name = 'SignerBenchUsage'
}

function readPlaces(raw: Raw): KeyPlace[] {
  const types = String(raw['types']).split(',') as BenchKeyType[]
  const wrong = types.find((type) => !TYPES.includes(type))
  if (wrong !== undefined) throw new SignerBenchUsage(`--types ${wrong}: one of ${TYPES.join(', ')}`)
  const sessions = String(raw['sessions']).split(',').map(Number)
  if (sessions.some((count) => !Number.isInteger(count) || count < 0 || count > MAX_SESSIONS)) {
    throw new SignerBenchUsage(`--sessions: whole numbers from 0 to ${MAX_SESSIONS}, with commas between`)
  }
  return types.flatMap((type) => sessions.map((count) => ({ type, sessions: count === 0 ? undefined : count })))
}

function readNumber(raw: Raw, name: string, least: number, most: number): number {
  const value = Number(raw[name])
  if (value >= least && value <= most) return value
  throw new SignerBenchUsage(`--${name}: a number from ${least} to ${most}`)
}

/** Output files that cannot be written are wrong usage. */
function readFiles(raw: Raw): OutputFiles {
  const read = new Reader(raw)
  const files = { jsonFile: read.output('json'), htmlFile: read.output('html') }
  if (read.errors.length > 0) throw new SignerBenchUsage(read.errors.join('\n'))
  return files
}

export function nameOfKey({ type, sessions }: Pick<SignerRow, 'type' | 'sessions'>): string {
  if (sessions === 0) return `${type}, file`
  return `${type}, token, ${sessions} session${sessions > 1 ? 's' : ''}`
}

function cells(row: SignerRow): string[] {
  const { perSecond, p50Ms, p99Ms, signerMicros, mainThread, otherThreads, clientMicros, machine, limitedBy } = row
  const whole = (value: number) => Math.round(value).toLocaleString('en')
  return [
    nameOfKey(row),
    ...[whole(perSecond), p50Ms.toFixed(2), p99Ms.toFixed(2), whole(signerMicros), whole(100 * mainThread)],
    ...[whole(100 * otherThreads), whole(clientMicros), whole(100 * machine), limitedBy],
  ]
}

function line(columns: readonly string[]): string {
  const [name = '', ...figures] = columns
  const last = figures.pop()
  return `${name.padEnd(30)}${figures.map((figure) => figure.padStart(11)).join('')}   ${last}`
}
