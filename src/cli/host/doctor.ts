/** `chancery doctor`: looks at a running installation from its host, changes nothing, and makes a report: text or JSON. */

import { CHECKS, type Finding, type Progress, runChecks } from '../../doctor/checks.ts'
import { areaOf, Sources } from '../../doctor/sources.ts'
import { AREA_NAMES, AREAS, type Area, type Result } from '../../doctor/verdict.ts'
import { UsageError } from '../../shared/command-line.ts'
import { plural } from '../../shared/lib/plural.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { printable } from '../../shared/lib/terminal.ts'
import { loadConfigFile, nameOfConfig } from '../config-file.ts'
import { inspectServiceFiles } from '../configured-files.ts'
import { connectAsServiceUser } from '../peer-relay.ts'
import { tell } from '../printing.ts'
import type { Printing } from '../values.ts'

interface DoctorValues extends Printing {
  'signer-config': string | undefined
  target: string | undefined
  only: readonly string[]
  strict: boolean
  'test-sign': boolean
}

/** @returns 1 when something has failed, or with `strict` is a warning */
export async function doctor(values: DoctorValues): Promise<number> {
  const areas = areasOf(values.only)
  const checks = CHECKS.filter((check) => areas.length === 0 || areas.includes(areaOf(check)))
  const loaded = await loadConfigFile(values.config)
  if (loaded.ok) await connectAsServiceUser(loaded.config)
  const sources = new Sources({
    configFile: nameOfConfig(values.config),
    loaded,
    signerConfigFile: values['signer-config'],
    target: values.target,
    testSign: values['test-sign'],
    version: VERSION,
    inspectFiles: inspectServiceFiles,
  })
  try {
    const findings = await runChecks(checks, sources, showProgress)
    clearProgress()
    tell(values.json, jsonOf(findings, new Date()), textOf(findings))
    return exitCodeOf(countsOf(findings), values.strict)
  } finally {
    await sources.close()
  }
}

/** @throws UsageError */
function areasOf(only: readonly string[]): Area[] {
  const named = only.flatMap((text) => text.split(','))
  const wrong = named.find((name) => !(AREA_NAMES as string[]).includes(name))
  if (wrong !== undefined) throw new UsageError(`--only ${wrong}: is no area; there are ${AREA_NAMES.join(', ')}`)
  return named as Area[]
}

const ERASE_LINE = '\r\u001b[K'

function showProgress({ done, of, title }: Progress): void {
  if (process.stderr.isTTY) process.stderr.write(`${ERASE_LINE}${done}/${of} ${title.slice(0, 70)}`)
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write(ERASE_LINE)
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
