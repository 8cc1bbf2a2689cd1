/**
 * Runs checks of `chancery doctor` a few at a time, each within its time, and makes the report: text or JSON.
 * A check that fails says so, and stops no other.
 */

import { plural } from '../shared/lib/plural.ts'
import { printable } from '../shared/lib/terminal.ts'
import { within } from '../shared/lib/time-limit.ts'
import { areaOf, type Check, type Sources } from './sources.ts'
import { AREA_NAMES, AREAS, type Area, CannotTell, messageOf, type Result, unknown, type Verdict } from './verdict.ts'

interface Finding extends Verdict {
  id: string
  area: Area
  title: string
}

export interface Progress {
  done: number
  of: number
  title: string
}

/** Some checks wait for other servers, and none needs the processor for long. */
const AT_ONCE = 8
const LIMIT_MS = 30_000

/** @returns the findings in the order of the checks */
export async function runChecks(
  checks: readonly Check[],
  sources: Sources,
  onProgress: (progress: Progress) => void,
  limitMs = LIMIT_MS,
): Promise<Finding[]> {
  const found: Finding[][] = []
  const waiting = [...checks.entries()]
  let done = 0
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [at, check] = next
      found[at] = await runCheck(check, sources, limitMs)
      done += 1
      onProgress({ done, of: checks.length, title: check.title })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return withoutConsequences(found.flat())
}

/** A program that does not answer is one finding. Other checks that needed it say that they did not look. */
function withoutConsequences(findings: readonly Finding[]): Finding[] {
  return findings.map((finding) => {
    const first = findings.find(({ result, who }) => result === 'failure' && who === finding.who)
    if (finding.who === undefined || first === undefined || first === finding) return finding
    const { mend: _, ...rest } = finding
    return { ...rest, ...unknown(`not looked at, because of ${first.id}`) }
  })
}

async function runCheck(check: Check, sources: Sources, limitMs: number): Promise<Finding[]> {
  const late = [unknown(`cannot tell, because the check did not end within ${limitMs / 1000} s`)]
  const verdicts = await within(verdictsOf(check, sources), limitMs, late)
  return verdicts.map((verdict) => ({ id: check.id, area: areaOf(check), title: check.title, ...verdict }))
}

async function verdictsOf(check: Check, sources: Sources): Promise<readonly Verdict[]> {
  try {
    const found = await check.look(sources)
    return found === undefined ? [] : 'result' in found ? [found] : found
  } catch (error) {
    const { mend, who } = error instanceof CannotTell ? error : {}
    return [{ ...unknown(`cannot tell, because ${messageOf(error)}`, mend), who }]
  }
}

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
