/** `npm run bench -- micro [name…]`: what the parts of a request cost one by one, beside the crypto that nobody can save. */

import { setImmediate } from 'node:timers/promises'
import { unlessInterrupted } from '../interrupt.ts'
import { averageCosts, type CryptoCosts, measureCryptoCosts } from '../measure/crypto-floor.ts'
import type { OutputFiles } from '../options/outputs.ts'
import { type Flag, OptionsError, type Raw, Reader } from '../options/reader.ts'
import type { BenchDocument } from '../report/document.ts'
import type { Grid } from '../report/grid.ts'
import type { Done, MicroFigures, MicroGroup, MicroResult } from './micro.ts'
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
  ['html', 'File to write a report to'],
  ['baseline', 'Such a JSON file of another tree: prints the ratio to it, in crypto floors'],
]

const FLOOR_MS = 150

/**
 * @param signal Ends it when the measurement under way has ended.
 * @returns figures and where they are to be written. @throws OptionsError for a name or a flag that is wrong
 */
export async function benchMicro(
  raw: Raw,
  write: (line: string) => void,
  signal: AbortSignal,
): Promise<{ micro: MicroFigures; files: OutputFiles }> {
  const { wanted, settings, files, baseline } = readOptions(raw)
  const before = measureCryptoCosts(FLOOR_MS)
  write(row('CPU, µs', [...COLUMNS, ...(baseline ? ['ratio'] : [])]))
  const results: MicroResult[] = []
  const done: Done = async (result) => {
    results.push(result)
    write(row(result.name, cells(result, before, baseline)))
    // What is measured blocks the event loop, which is where signals are noticed.
    await setImmediate()
    signal.throwIfAborted()
  }
  const running = async () => {
    for (const group of MICRO_GROUPS) await group.run(wanted, { ...settings, signal }, done)
  }
  await unlessInterrupted(running())
  const floor = averageCosts(before, measureCryptoCosts(FLOOR_MS))
  write('')
  write(floorLine(floor))
  return { micro: { floor, results }, files }
}

const COLUMNS = ['batch', 'here', 'asked', 'in all', 'verifies']

export function microGrid({ floor, results }: MicroFigures): Grid {
  return {
    columns: ['CPU, µs', ...COLUMNS],
    rows: results.map((result) => [result.name, ...cells(result, floor, undefined)]),
  }
}

export function floorLine({ jwsVerification, csrVerification, signature }: CryptoCosts): string {
  return (
    `crypto floor, µs: ${jwsVerification.toFixed(1)} a verification ("verifies" counts in these), ` +
    `${csrVerification.toFixed(1)} of a CSR, ${signature.toFixed(1)} a signature`
  )
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
    milliseconds: read.integer('milliseconds', { min: 1, max: 600_000 }),
    rows: read.integer('rows', { min: 100, max: 1_000_000 }),
    batches,
  }
  const files = { jsonFile: read.output('json'), htmlFile: read.output('html') }
  const text = read.file('baseline')
  const baseline = text === undefined ? undefined : readBaseline(text, read)
  if (read.errors.length > 0) throw new OptionsError(read.errors)
  return { wanted: (name: string) => names.length === 0 || names.includes(name), settings, files, baseline }
}

function readBaseline(text: string, read: Reader): MicroFigures | undefined {
  try {
    const { micro } = JSON.parse(text) as Partial<BenchDocument>
    if (micro) return micro
  } catch {
    // The one sentence below covers both.
  }
  read.errors.push('--baseline: not a result of bench micro')
  return undefined
}

function cells(result: MicroResult, costs: CryptoCosts, baseline: MicroFigures | undefined): string[] {
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
