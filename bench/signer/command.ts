/** `npm run bench -- signer`: the signer alone, its keys in files and in SoftHSM tokens. */

import { cpus } from 'node:os'
import { measureSigner, nameLimit, type SignerFigures } from './measure.ts'
import { type BenchKeyType, type KeyPlace, SignerPlace } from './place.ts'

/** Name, sentence, default: what `--help` shows. */
export const SIGNER_FLAGS: readonly (readonly [name: string, sentence: string, fallback: string | number])[] = [
  ['types', 'Key types, in turn: P-256, P-384, RSA-2048, RSA-4096', 'P-256,RSA-2048'],
  ['sessions', 'Sessions with the token, in turn; 0 is a key file', '0,1,4,16'],
  ['in-flight', 'Requests under way at once', 32],
  ['duration', 'Seconds to measure each', 5],
  ['warmup', 'Seconds to run before measuring', 1],
  ['library', 'SoftHSM library', '/usr/lib/softhsm/libsofthsm2.so'],
]

const TYPES: readonly BenchKeyType[] = ['P-256', 'P-384', 'RSA-2048', 'RSA-4096']
const MAX_SESSIONS = 32
const MAX_IN_FLIGHT = 1024

type Raw = Readonly<Record<string, unknown>>

/** @throws SignerBenchUsage naming the option that is wrong; the signal's reason, when what was under way has been given up */
export async function benchSigner(raw: Raw, write: (line: string) => void, signal: AbortSignal): Promise<void> {
  const places = readPlaces(raw)
  const inFlight = readNumber(raw, 'in-flight', 1, MAX_IN_FLIGHT)
  const durationMs = 1000 * readNumber(raw, 'duration', 0.1, 600)
  const warmupMs = 1000 * readNumber(raw, 'warmup', 0, 60)
  write(
    `signatures over one connection, ${inFlight} requests in flight; ${durationMs / 1000} s each after ${warmupMs / 1000} s of warm-up`,
  )
  write(`Node ${process.versions.node}; ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`)
  write('')
  write(
    row(
      'key',
      ['per second', 'p50 ms', 'p99 ms', 'signer µs', 'main %', 'others %', 'client µs', 'machine %'],
      'limited by',
    ),
  )
  const place = new SignerPlace(String(raw['library']))
  try {
    for (const key of places) {
      const signer = await place.start(key, signal)
      try {
        const figures = await measureSigner(signer, { inFlight, warmupMs, durationMs, signal })
        write(row(nameOf(key), cells(figures), nameLimit(figures, key.sessions)))
      } finally {
        await signer.stop()
      }
    }
  } finally {
    place.remove()
  }
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

function nameOf({ type, sessions }: KeyPlace): string {
  if (sessions === undefined) return `${type}, file`
  return `${type}, token, ${sessions} session${sessions > 1 ? 's' : ''}`
}

function cells({
  perSecond,
  p50Ms,
  p99Ms,
  signerMicros,
  mainThread,
  otherThreads,
  clientMicros,
  machine,
}: SignerFigures) {
  const whole = (value: number) => Math.round(value).toLocaleString('en')
  return [
    whole(perSecond),
    p50Ms.toFixed(2),
    p99Ms.toFixed(2),
    whole(signerMicros),
    whole(100 * mainThread),
    whole(100 * otherThreads),
    whole(clientMicros),
    whole(100 * machine),
  ]
}

function row(name: string, columns: readonly string[], last: string): string {
  return `${name.padEnd(30)}${columns.map((column) => column.padStart(11)).join('')}   ${last}`
}
