/** The result as a text for a terminal. */

import { ROLES, type Role } from '../measure/server-cpu.ts'
import { isGeneratorBusy, type Result } from './result.ts'
import type { Latency } from './series.ts'

export const ROLE_NAMES: Record<Role, string> = { service: 'service', signer: 'signer', postgres: 'PostgreSQL' }
/** Seven columns and the longest name of a step fit into 80. */
const COLUMN_WIDTH = 8
const COLUMNS = ['count', 'mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const

export function renderText(result: Result): string {
  const blocks = [headLines(result), latencyTable(result), cpuLines(result), trafficLines(result), failureLines(result)]
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join('\n'))
    .join('\n\n')}\n`
}

function headLines(result: Result): string[] {
  const { scenario, challenge, processes, accounts, seconds, warmupSeconds } = result
  const checked =
    result.certificatesChecked > 0 ? `, ${result.certificatesChecked} certificates checked (with warm-up)` : ''
  return [
    `${scenario} against ${result.directory}${challenge === 'http-01' ? '' : `, challenge ${challenge}`}`,
    `${loadWords(result)} in ${plural(processes, 'process', 'processes')}, ${plural(accounts, 'account')}; ` +
      `${seconds.toFixed(1)} s after ${warmupSeconds} s of warm-up`,
    `Node ${result.node}; ${result.processor}`,
    '',
    `${rate(result.perSecond)} per second   ${result.succeeded} succeeded, ${result.failed} failed${notServed(result)}${checked}`,
  ]
}

function loadWords({ load, clients }: Result): string {
  if (load.kind === 'closed') return plural(clients, 'client')
  const part = load.ofMaximum === undefined ? '' : ` (${Math.round(load.ofMaximum * 100)} % of the closed loop)`
  return `open loop at ${rate(load.perSecond)} per second${part}, at most ${plural(load.connections, 'connection')}`
}

function notServed({ refused, dropped }: Result): string {
  return [
    refused > 0 ? `, ${refused} refused with 503 and Retry-After` : '',
    dropped > 0 ? `, ${dropped} dropped before they began` : '',
  ].join('')
}

function latencyTable({ scenario, latency, steps, refusals, lag }: Result): string[] {
  const rows: [string, Latency][] = [
    [scenario, latency],
    ...Object.entries(steps).map(indented),
    ...Object.entries(refusals).map(([name, of]): [string, Latency] => [`  503 to ${name}`, of]),
    ...(lag ? [['generator lag', lag] satisfies [string, Latency]] : []),
  ]
  const width = Math.max(...rows.map(([name]) => name.length), 12)
  const header = 'latency, ms'.padEnd(width) + COLUMNS.map((column) => column.padStart(COLUMN_WIDTH)).join('')
  return [header, ...rows.map(([name, row]) => name.padEnd(width) + COLUMNS.map((c) => cell(c, row)).join(''))]
}

function indented([name, latency]: [string, Latency]): [string, Latency] {
  return [`  ${name}`, latency]
}

function cell(column: (typeof COLUMNS)[number], row: Latency): string {
  return (column === 'count' ? String(row.count) : number(row[column])).padStart(COLUMN_WIDTH)
}

function cpuLines({ cpu, floor }: Result): string[] {
  if (!cpu) return []
  const lines = ['CPU per operation, µs']
  for (const role of ROLES) {
    const micros = cpu.server[role]
    if (micros !== undefined) lines.push(figure(ROLE_NAMES[role], micros))
  }
  if (cpu.serverTotal !== undefined) lines.push(figure('server in all', cpu.serverTotal))
  lines.push(figure('generator', cpu.generator), figure('responders', cpu.responder))
  if (floor) {
    const ratio = floor.serverRatio === undefined ? '' : `   server = ${floor.serverRatio.toFixed(2)} × floor`
    lines.push(figure('crypto floor', floor.micros) + ratio)
    if (floor.beside) lines.push(figure('floor, idle', floor.idleMicros))
  }
  return lines
}

function figure(name: string, micros: number): string {
  return `  ${name.padEnd(16)}${micros.toFixed(micros < 100 ? 1 : 0).padStart(10)}`
}

function trafficLines(result: Result): string[] {
  const { succeeded, sentBytes, receivedBytes, signedRequests, badNonceRetries } = result
  if (succeeded === 0) return []
  const each = (total: number) => total / succeeded
  return [
    `per operation: ${each(sentBytes).toFixed(0)} bytes sent, ${each(receivedBytes).toFixed(0)} received, ` +
      `${each(signedRequests).toFixed(2)} signed requests; badNonce retries: ${badNonceRetries}`,
    ...(isGeneratorBusy(result) ? [generatorWarning(result)] : []),
  ]
}

export function generatorWarning({ generatorCores, processes, lag }: Result): string {
  const late = lag ? ` and was up to ${lag.p99.toFixed(0)} ms late (99 %)` : ''
  return (
    `the generator had ${(generatorCores * 100).toFixed(0)} % of a core in use${processes > 1 ? ' in its busiest process' : ''}${late}: ` +
    'it may be what limits these figures; give it a core of its own, or raise --processes'
  )
}

function failureLines({ failures }: Result): string[] {
  if (failures.length === 0) return []
  return ['failures', ...failures.map(({ kind, count, example }) => `  ${count} × ${kind}, such as: ${example}`)]
}

function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

function rate(perSecond: number): string {
  return perSecond < 100 ? perSecond.toFixed(1) : perSecond.toFixed(0)
}

export function number(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)
}
