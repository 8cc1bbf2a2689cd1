/** An overload run as a text for a terminal. */

import { isGeneratorBusy } from '../report/result.ts'
import type { Latency } from '../report/series.ts'
import { generatorWarning, number, ROLE_NAMES } from '../report/text.ts'
import { NO_OVERLOAD, type OverloadResult, wasNoOverload } from './result.ts'

const MEBIBYTE = 1024 * 1024

export function renderOverload(result: OverloadResult): string {
  const { maximum, run, parts, flood } = result
  const [before, during] = parts
  const [calm, rate] = [before?.perSecond ?? 0, during?.perSecond ?? 0]
  const seconds = (during?.to ?? 0) - (during?.from ?? 0)
  const lines: [string, string][] = [
    ['maximum', `${number(maximum.perSecond)}/s (closed loop, ${maximum.clients} clients)`],
    ['planned', `${number(rate)}/s for ${seconds} s; ${number(calm)}/s before and after`],
    ['goodput', `${number(result.goodput)}/s, ${percent(result.goodputShare)} of the maximum`],
    [`worst ${result.worstSeconds} s`, `${percent(result.worstGoodputShare)} of the maximum`],
    ['503', `${flood.refused} with Retry-After, ${percent(result.refusedShare)} of what reached the server`],
    ...Object.entries(run.refusals).map(([step, of]): [string, string] => [
      `  to ${step}`,
      `${of.count}: ${latencyWords(of)}`,
    ]),
    ['dropped', `${flood.dropped} found no connection in time`],
    ['failed', `${flood.failed}`],
    [
      'a refusal costs',
      result.refusalMicros === undefined
        ? 'not known'
        : `${number(result.refusalMicros)} µs of server CPU; a success ${number(maximum.cpu?.serverTotal ?? 0)} µs`,
    ],
    [
      'in the whole run',
      `${run.succeeded} succeeded, ${run.refused} refused, ${run.dropped} dropped, ${run.failed} failed`,
    ],
    ['', 'what the flood began may end after it'],
    ['latency before', latencyWords(result.latencyBefore)],
    ['latency in flood', latencyWords(result.latencyInFlood)],
    ['latency after', latencyWords(result.latencyAfter)],
    [
      'recovery',
      result.recoverySeconds === undefined
        ? 'not within the run'
        : `${result.recoverySeconds.toFixed(1)} s after the flood`,
    ],
    ...memoryLines(result),
    ...(run.lag ? [['generator lag', latencyWords(run.lag)] satisfies [string, string]] : []),
  ]
  const failures = run.failures.map(({ kind, count, example }) => `  ${count} × ${kind}, such as: ${example}`)
  return [
    `overload of ${result.server} with ${run.scenario}`,
    ...lines.map(([name, value]) => `  ${name.padEnd(18)}${value}`),
    ...(isGeneratorBusy(run) ? [generatorWarning(run)] : []),
    ...(wasNoOverload(result) ? [NO_OVERLOAD] : []),
    ...(failures.length > 0 ? ['failures', ...failures] : []),
    '',
  ].join('\n')
}

function memoryLines({ memory }: OverloadResult): [string, string][] {
  const roles = Object.keys(memory.most) as (keyof typeof memory.most)[]
  return roles.map((role) => {
    const at = (moment: keyof typeof memory) => number((memory[moment][role] ?? 0) / MEBIBYTE)
    return [`memory ${ROLE_NAMES[role]}`, `${at('before')} MiB before, ${at('most')} at most, ${at('after')} after`]
  })
}

function latencyWords({ p50, p99, max }: Latency): string {
  return `p50 ${number(p50)}, p99 ${number(p99)}, max ${number(max)} ms`
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}
