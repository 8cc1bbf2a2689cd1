/** One result as a text for a terminal. */

import type { Latency } from '../measure/histogram.ts'
import { ROLES, type Role } from '../measure/server-cpu.ts'
import { isGeneratorBusy, type Result } from './result.ts'
import { nameOfLoad } from './summary.ts'

export const ROLE_NAMES: Record<Role, string> = { service: 'service', signer: 'signer', postgres: 'PostgreSQL' }
const COLUMNS = ['count', 'mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const
/** Seven columns and the longest name of a step fit into 80. */
const COLUMN_WIDTH = 8

export function renderText(result: Result): string {
  const blocks = [headLines(result), latencyTable(result), cpuLines(result), troubleLines(result)]
  const shown = blocks.filter((lines) => lines.length > 0)
  return `${shown.map((lines) => lines.join('\n')).join('\n\n')}\n`
}

function headLines(result: Result): string[] {
  const { scenario, directory, challenge, load, clients, processes, accounts, seconds, certificatesChecked } = result
  const { perSecond, succeeded, failed, refused, dropped, signedRequests, badNonceRetries } = result
  const outcome = [
    `${number(perSecond)} per second: ${succeeded} succeeded, ${failed} failed`,
    ...(refused > 0 ? [`${refused} refused with 503 and Retry-After`] : []),
    ...(dropped > 0 ? [`${dropped} dropped before they began`] : []),
    ...(certificatesChecked > 0 ? [`${certificatesChecked} certificates checked (with warm-up)`] : []),
  ]
  const many = load.kind === 'closed' ? `${clients} clients` : `at most ${load.connections} connections`
  return [
    `${scenario} against ${directory}, challenge ${challenge}`,
    `${nameOfLoad(load)}, ${many}, ${processes} processes, ${accounts} accounts, ${seconds.toFixed(1)} s`,
    outcome.join(', '),
    ...(signedRequests > 0 ? [`${signedRequests} signed requests, ${badNonceRetries} badNonce retries`] : []),
  ]
}

function latencyTable({ scenario, latency, steps, lag }: Result): string[] {
  const rows: [string, Latency][] = [
    [scenario, latency],
    ...Object.entries(steps).map(([name, of]): [string, Latency] => [`  ${name}`, of]),
    ...(lag ? [['generator lag', lag] satisfies [string, Latency]] : []),
  ]
  const width = Math.max(...rows.map(([name]) => name.length), 12)
  const cell = (text: string) => text.padStart(COLUMN_WIDTH)
  const line = (row: Latency) => COLUMNS.map((name) => cell(name === 'count' ? String(row.count) : number(row[name])))
  return [
    'latency, ms'.padEnd(width) + COLUMNS.map(cell).join(''),
    ...rows.map(([name, row]) => name.padEnd(width) + line(row).join('')),
  ]
}

function cpuLines({ cpu, floor }: Result): string[] {
  if (!cpu) return []
  const figure = (name: string, micros: number | undefined, more = '') =>
    micros === undefined ? [] : [`  ${name.padEnd(16)}${number(micros).padStart(10)}${more}`]
  const ratio = floor?.serverRatio === undefined ? '' : `   server = ${floor.serverRatio.toFixed(2)} × floor`
  return [
    'CPU per operation, µs',
    ...ROLES.flatMap((role) => figure(ROLE_NAMES[role], cpu.server[role])),
    ...figure('server in all', cpu.serverTotal),
    ...figure('generator', cpu.generator),
    ...figure('responders', cpu.responder),
    ...figure('crypto floor', floor?.micros, ratio),
  ]
}

export function troubleLines(result: Result): string[] {
  const failures = result.failures.map(({ kind, count, example }) => `failed: ${count} × ${kind}, such as: ${example}`)
  return [...generatorWarning(result), ...warmupWarning(result), ...failures]
}

/** Empty when the generator had time to spare. */
export function generatorWarning(result: Result): string[] {
  if (!isGeneratorBusy(result)) return []
  const { generatorCores, lag } = result
  const late = lag ? ` and was up to ${lag.p99.toFixed(0)} ms late (99 %)` : ''
  return [
    `the busiest generator process had ${(generatorCores * 100).toFixed(0)} % of a core in use${late}: ` +
      'it may be what limits these figures; give it a core of its own, or raise --processes',
  ]
}

/** Empty when the server was steady, or the time of the warm-up was given. */
export function warmupWarning({ warmup }: Result): string[] {
  if (!warmup || warmup.isSteady) return []
  return [
    `after ${warmup.seconds} s of warm-up the rate or the CPU per operation still changed by more than 5 %: ` +
      'these may be figures of a cold server or a busy machine; a longer warm-up is --warmup',
  ]
}

export function number(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)
}
