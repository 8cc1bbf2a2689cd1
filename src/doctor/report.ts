/** The report of `chancery doctor`, as text and as JSON. Pure. */

import { plural } from '../shared/lib/plural.ts'
import { printable } from '../shared/lib/terminal.ts'
import type { Finding } from './run.ts'
import { AREA_NAMES, AREAS, type Result } from './verdict.ts'

/** The words are alike in length, so that a reader finds the loud one. */
const WORDS: Readonly<Record<Result, string>> = { ok: 'ok', warning: 'warning', failure: 'FAIL', unknown: 'unknown' }
const WORD_WIDTH = 9

type Counts = Readonly<Record<Result, number>>

export function countsOf(findings: readonly Finding[]): Counts {
  const of = (wanted: Result) => findings.filter(({ result }) => result === wanted).length
  return { ok: of('ok'), warning: of('warning'), failure: of('failure'), unknown: of('unknown') }
}

const summaryOf = ({ ok, warning, failure, unknown }: Counts): string =>
  `${ok} ok, ${plural(warning, 'warning')}, ${plural(failure, 'failure')}, ${unknown} unknown`

/** @param isStrict whether a warning counts as a failure */
export const exitCodeOf = ({ failure, warning }: Counts, isStrict: boolean): number =>
  failure > 0 || (isStrict && warning > 0) ? 1 : 0

export function textOf(findings: readonly Finding[]): string {
  const groups = AREA_NAMES.flatMap((area) => {
    const own = findings.filter((finding) => finding.area === area)
    return own.length === 0 ? [] : [[AREAS[area], ...folded(own).flatMap(linesOf)].join('\n')]
  })
  return [...groups, summaryOf(countsOf(findings))].join('\n\n')
}

/** Folds the checks that one failure kept from looking into one line. */
const folded = (findings: readonly Finding[]): Finding[] =>
  findings.flatMap((finding) => {
    const { result, says } = finding
    const same = result === 'unknown' ? findings.filter((one) => one.result === result && one.says === says) : [finding]
    return same[0] === finding ? [{ ...finding, id: same.map(({ id }) => id).join(', ') }] : []
  })

const INDENT = ' '.repeat(2 + WORD_WIDTH)

function linesOf({ result, id, says, mend }: Finding): string[] {
  const first = `  ${WORDS[result].padEnd(WORD_WIDTH)}${id}: ${oneLine(says)}`
  return mend === undefined || result === 'ok' ? [first] : [first, `${INDENT}to do: ${oneLine(mend)}`]
}

const oneLine = (text: string) => printable(text).replaceAll(/\s*\n\s*/g, '; ')

/** `version` rises when a member changes its meaning or goes; further members may come. */
export function jsonOf(findings: readonly Finding[], at: Date): object {
  return {
    version: 1,
    at: at.toISOString(),
    counts: countsOf(findings),
    findings: findings.map(({ id, area, title, result, says, mend }) => ({
      id,
      area,
      title,
      result,
      says,
      mend: mend ?? null,
    })),
  }
}
