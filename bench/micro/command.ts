/** `npm run bench -- micro [name…]`: what the parts of a request cost one by one, beside the crypto that nobody can save. */

import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import { type Interrupt, interruptedBy, unlessInterrupted } from '../interrupt.ts'
import { averageCosts, type CryptoCosts, measureCryptoCosts } from '../measure/crypto-floor.ts'
import { type Flag, OptionsError, type Raw, Reader } from '../options/reader.ts'
import type { Done, MicroGroup, MicroResult } from './micro.ts'
import { PURE } from './pure.ts'
import { SIGNER } from './signer.ts'
import { STATEMENTS } from './statements.ts'

export const MICRO_GROUPS: readonly MicroGroup[] = [PURE, SIGNER, STATEMENTS]

const FALLBACKS = { milliseconds: 500, rows: 2000, batches: '1,4,16' }
export const MICRO_FLAGS: readonly Flag[] = [
  ['milliseconds', 'How long each is measured that ends by time', FALLBACKS.milliseconds],
  ['rows', 'How many certificates the statements are measured with', FALLBACKS.rows],
  ['batches', 'Commands of one statement, in turn', FALLBACKS.batches],
  ['json', 'File to write the results to'],
  ['baseline', 'Such a file of another tree: prints the ratio to it, in crypto floors'],
]

export interface MicroDocument {
  format: 'chancery-bench-micro'
  version: 1
  startedAt: string
  /** The signal that ended it early; undefined when it went on to its end. */
  interruptedBy: string | undefined
  node: string
  processor: string
  /** Microseconds of CPU, mean of before and after. */
  floor: CryptoCosts
  results: MicroResult[]
}

const FLOOR_MS = 150

/**
 * @param interrupt Ends it when the measurement under way has ended; the results until then are told and written.
 * @throws OptionsError for a name or a flag that is wrong
 */
export async function benchMicro(raw: Raw, write: (line: string) => void, interrupt: Interrupt): Promise<void> {
  const { wanted, settings, jsonFile, baseline } = readOptions(raw)
  const startedAt = new Date().toISOString()
  const before = measureCryptoCosts(FLOOR_MS)
  write(row('CPU, µs', ['batch', 'here', 'asked', 'in all', 'verifies', ...(baseline ? ['ratio'] : [])]))
  const results: MicroResult[] = []
  const done: Done = async (result) => {
    results.push(result)
    write(row(result.name, cells(result, before, baseline)))
    // What is measured blocks the event loop, which is where signals are noticed.
    await setImmediate()
    interrupt.throwIfAborted()
  }
  const running = async () => {
    for (const group of MICRO_GROUPS) await group.run(wanted, { ...settings, signal: interrupt }, done)
  }
  await unlessInterrupted(running())
  const floor = averageCosts(before, measureCryptoCosts(FLOOR_MS))
  write('')
  write(
    `crypto floor, µs: ${floor.jwsVerification.toFixed(1)} a verification ("verifies" counts in these), ` +
      `${floor.csrVerification.toFixed(1)} of a CSR, ${floor.signature.toFixed(1)} a signature`,
  )
  const processor = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`
  const about = { format: 'chancery-bench-micro', version: 1, startedAt, node: process.version, processor } as const
  const document: MicroDocument = { ...about, interruptedBy: interruptedBy(interrupt), floor, results }
  if (jsonFile !== undefined) writeFileSync(jsonFile, `${JSON.stringify(document, null, 2)}\n`)
}

function readOptions(raw: Raw) {
  const read = new Reader({ ...FALLBACKS, ...raw })
  const names = (raw['_'] as string[] | undefined) ?? []
  const known = MICRO_GROUPS.flatMap((group) => group.names)
  for (const name of names) if (!known.includes(name)) read.errors.push(`${name}: not one of ${known.join(', ')}`)
  const batches = read.text('batches').split(',').map(Number)
  if (batches.some((batch) => !Number.isInteger(batch) || batch < 1 || batch > 100))
    read.errors.push('--batches: whole numbers from 1 to 100, with commas between')
  const settings = {
    milliseconds: read.integer('milliseconds', { min: 1 }),
    rows: read.integer('rows', { min: 100 }),
    batches,
  }
  const jsonFile = read.optionalText('json')
  const text = read.file('baseline')
  const baseline = text === undefined ? undefined : readBaseline(text, read)
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { wanted: (name: string) => names.length === 0 || names.includes(name), settings, jsonFile, baseline }
}

function readBaseline(text: string, read: Reader): MicroDocument | undefined {
  try {
    const document = JSON.parse(text) as MicroDocument
    if (document.format === 'chancery-bench-micro') return document
  } catch {
    // The one sentence below covers both.
  }
  read.errors.push('--baseline: not a result of bench micro')
  return undefined
}

function cells(result: MicroResult, costs: CryptoCosts, baseline: MicroDocument | undefined): string[] {
  const floors = inFloors(result, costs)
  const earlier = baseline?.results.find(({ name, batch }) => name === result.name && batch === result.batch)
  const ratio = earlier && baseline ? floors / inFloors(earlier, baseline.floor) : undefined
  return [
    result.batch === undefined ? '' : String(result.batch),
    micros(result.own),
    result.other === undefined ? '' : micros(result.other),
    micros(totalOf(result)),
    floors.toFixed(3),
    ...(baseline ? [ratio === undefined ? '' : ratio.toFixed(2)] : []),
  ]
}

function totalOf({ own, other = 0 }: MicroResult): number {
  return own + other
}

/** Clocks and neighbours change microseconds; the ratio to a verification of the same minute stays comparable. */
function inFloors(result: MicroResult, { jwsVerification }: CryptoCosts): number {
  return totalOf(result) / jwsVerification
}

function micros(value: number): string {
  return value.toFixed(value < 100 ? 2 : 0)
}

function row(name: string, columns: readonly string[]): string {
  return `${name.padEnd(22)}${columns.map((column) => column.padStart(10)).join('')}`
}
