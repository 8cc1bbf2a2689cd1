/** `npm run bench -- signer`: the signer alone, its keys in files and in SoftHSM tokens. */

import { cpus } from 'node:os'
import { type Command, type Session, writeLine, writeReports } from '../command.ts'
import { unlessInterrupted } from '../interrupt.ts'
import type { OutputFiles } from '../options/outputs.ts'
import { OptionsError, type Raw, Reader } from '../options/reader.ts'
import { measureSigner, nameLimit } from './measure.ts'
import { type BenchKeyType, type KeyPlace, SignerPlace } from './place.ts'
import { COLUMNS, cells, line, type SignerRow } from './text.ts'

export const command: Command = {
  description: [
    'Measure the signer alone: signatures per second with keys in files and in SoftHSM tokens, and what limits them.',
    'Starts a signer of its own with throw-away keys and stops it; needs SoftHSM (Debian: softhsm2) for the tokens.',
  ],
  examples: [],
  flags: [
    ['types', 'Key types, in turn: P-256, P-384, RSA-2048, RSA-4096', 'P-256,RSA-2048'],
    ['sessions', 'Sessions with the token, in turn; 0 is a key file', '0,1,4,16'],
    ['in-flight', 'Requests under way at once', 32],
    ['duration', 'Seconds to measure each', 5],
    ['warmup', 'Seconds to run before measuring', 1],
    ['library', 'SoftHSM library', '/usr/lib/softhsm/libsofthsm2.so'],
    ['json', 'File to write the results to'],
    ['html', 'File to write a report to'],
  ],
  run: benchSigner,
}

const TYPES: readonly BenchKeyType[] = ['P-256', 'P-384', 'RSA-2048', 'RSA-4096']
const MAX_SESSIONS = 32
const MAX_IN_FLIGHT = 1024

/** The first signal ends it; the measurement under way is given up. */
async function benchSigner(raw: Raw, { interrupt, document }: Session): Promise<boolean> {
  const places = readPlaces(raw)
  const files = readFiles(raw)
  const inFlight = readNumber(raw, 'in-flight', 1, MAX_IN_FLIGHT)
  const durationMs = 1000 * readNumber(raw, 'duration', 0.1, 600)
  const warmupMs = 1000 * readNumber(raw, 'warmup', 0, 60)
  writeLine(
    `signatures over one connection, ${inFlight} requests in flight; ${durationMs / 1000} s each after ${warmupMs / 1000} s of warm-up`,
  )
  writeLine(`Node ${process.versions.node}; ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}`)
  writeLine('')
  writeLine(line(COLUMNS))
  const rows: SignerRow[] = []
  const place = new SignerPlace(String(raw['library']))
  const measureAll = async () => {
    for (const key of places) {
      const signer = await place.start(key, interrupt)
      try {
        const figures = await measureSigner(signer, { inFlight, warmupMs, durationMs, signal: interrupt })
        const limitedBy = nameLimit(figures, key.sessions)
        const row = { type: key.type, sessions: key.sessions ?? 0, ...figures, limitedBy }
        rows.push(row)
        writeLine(line(cells(row)))
      } finally {
        await signer.stop()
      }
    }
  }
  await unlessInterrupted(measureAll()).finally(() => place.remove())
  return writeReports(files, document([], { signer: rows }))
}

function readPlaces(raw: Raw): KeyPlace[] {
  const types = String(raw['types']).split(',') as BenchKeyType[]
  const wrong = types.find((type) => !TYPES.includes(type))
  if (wrong !== undefined) throw new OptionsError([`--types ${wrong}: one of ${TYPES.join(', ')}`])
  const sessions = String(raw['sessions']).split(',').map(Number)
  if (sessions.some((count) => !Number.isInteger(count) || count < 0 || count > MAX_SESSIONS)) {
    throw new OptionsError([`--sessions: whole numbers from 0 to ${MAX_SESSIONS}, with commas between`])
  }
  return types.flatMap((type) => sessions.map((count) => ({ type, sessions: count === 0 ? undefined : count })))
}

function readNumber(raw: Raw, name: string, least: number, most: number): number {
  const value = Number(raw[name])
  if (value >= least && value <= most) return value
  throw new OptionsError([`--${name}: a number from ${least} to ${most}`])
}

/** Output files that cannot be written are wrong usage. */
function readFiles(raw: Raw): OutputFiles {
  const read = new Reader(raw)
  const files = { jsonFile: read.output('json'), htmlFile: read.output('html') }
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return files
}
