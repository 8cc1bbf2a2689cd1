/** `npm run bench -- micro [name…]`: what the parts of a request cost one by one, beside the crypto that nobody can save. */

import { setImmediate } from 'node:timers/promises'
import { type Command, type Session, writeLine, writeReports } from '../command.ts'
import { unlessInterrupted } from '../interrupt.ts'
import { averageCosts, measureCryptoCosts } from '../measure/crypto-floor.ts'
import { OptionsError, type Raw, Reader } from '../options/reader.ts'
import type { BenchDocument } from '../report/document.ts'
import type { Done, MicroFigures, MicroGroup, MicroResult } from './micro.ts'
import { PURE } from './pure.ts'
import { SIGNER } from './signer.ts'
import { STATEMENTS } from './statements.ts'
import { COLUMNS, cells, floorLine, row } from './text.ts'

const MICRO_GROUPS: readonly MicroGroup[] = [PURE, SIGNER, STATEMENTS]

const FALLBACKS = { milliseconds: 500, rows: 2000, batches: '1,4,16' }
export const command: Command = {
  description: [
    'What the parts of a request cost one by one, in CPU: those named behind the options, or all.',
    ...MICRO_GROUPS.map(({ names, summary }) => `${names.join(', ')}: ${summary}.`),
  ],
  examples: ['jws-verify csr-parse', '--json a.json', '--baseline a.json'],
  flags: [
    ['milliseconds', 'How long each is measured that ends by time', FALLBACKS.milliseconds],
    ['rows', 'How many certificates the statements are measured with', FALLBACKS.rows],
    ['batches', 'Commands of one statement, in turn', FALLBACKS.batches],
    ['json', 'File to write the results to'],
    ['html', 'File to write a report to'],
    ['baseline', 'Such a JSON file of another tree: prints the ratio to it, in crypto floors'],
  ],
  takesWords: true,
  run: measureParts,
}

const FLOOR_MS = 150

/** The first signal ends it when the measurement under way has ended. */
async function measureParts(raw: Raw, { interrupt, document }: Session): Promise<boolean> {
  const { wanted, settings, files, baseline } = readOptions(raw)
  const before = measureCryptoCosts(FLOOR_MS)
  writeLine(row('CPU, µs', [...COLUMNS, ...(baseline ? ['ratio'] : [])]))
  const results: MicroResult[] = []
  const done: Done = async (result) => {
    results.push(result)
    writeLine(row(result.name, cells(result, before, baseline)))
    // What is measured blocks the event loop, which is where signals are noticed.
    await setImmediate()
    interrupt.throwIfAborted()
  }
  const running = async () => {
    for (const group of MICRO_GROUPS) await group.run(wanted, { ...settings, signal: interrupt }, done)
  }
  await unlessInterrupted(running())
  const floor = averageCosts(before, measureCryptoCosts(FLOOR_MS))
  writeLine('')
  writeLine(floorLine(floor))
  return writeReports(files, document([], { micro: { floor, results } }))
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
