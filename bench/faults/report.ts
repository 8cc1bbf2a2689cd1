/** The report: on a terminal, and as one page that needs nothing else. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { OWN_ROOT } from '../servers/build.ts'
import { type FaultsDocument, isGood, type Row } from './document.ts'
import { TROUBLES } from './finding.ts'

const COLUMNS = [
  'kind',
  'times',
  'lost',
  'doubled',
  'stuck',
  '500',
  'undone',
  'untold',
  'unseen',
  'recovery',
  'longest',
  'silence',
]
const MOST_FINDINGS = 20

export function renderText(document: FaultsDocument): string {
  const { rows, total, books, findings, deaths, faults, soak, acts } = document
  const totalCells = ['all', String(faults.length), ...TROUBLES.map((trouble) => String(total[trouble])), '', '', '']
  const shown = findings.slice(0, MOST_FINDINGS).map(({ trouble, what, at, fault }) => {
    const cause = fault === undefined ? 'before all faults' : `by ${fault + 1} ${faults[fault]?.kind}`
    return `${trouble}: ${what} (${new Date(at).toISOString().slice(11, 19)}, ${cause})`
  })
  const more = findings.length > MOST_FINDINGS ? [`and ${findings.length - MOST_FINDINGS} more, in the JSON file`] : []
  return [
    ...table([COLUMNS, ...rows.map(cellsOf), totalCells]),
    ...rows.flatMap(({ kind, forgotten, repeated }) =>
      forgotten + repeated > 0
        ? [`${kind}: ${forgotten} forgotten orders, ${repeated} events and mails that came again`]
        : [],
    ),
    '',
    `${books.certificates} certificates, ${books.signatures} signatures, ${books.revoked} revoked; ` +
      `${books.events.received} events received (${books.events.distinct} distinct), ` +
      `${books.mails.received} mails (${books.mails.distinct} distinct)`,
    ...(acts
      ? [
          `${acts.restricting} restricting and ${acts.permitting} permitting acts; promotions lost ${acts.restored} ` +
            `restrictions that came back, and ${acts.told} entries and accounts that are listed`,
        ]
      : []),
    ...(soak?.verdicts ?? []).map(
      ({ name, first, last, perHour, isFlat }) =>
        `${isFlat ? 'flat ' : 'RISES'}  ${name}: ${first} to ${last}${perHour === undefined ? ' (peaks)' : `, ${perHour} more an hour`}`,
    ),
    ...deaths.map(({ part, at }) => `${part} ended by itself at ${new Date(at).toISOString().slice(11, 19)}`),
    ...shown,
    ...more,
    isGood(document) ? `good, with --seed ${document.seed}` : `NOT GOOD, with --seed ${document.seed}`,
  ].join('\n')
}

function cellsOf({ kind, times, recovery, longestSilence, ...troubles }: Row): string[] {
  const seconds = (value: number) => `${value.toFixed(1)} s`
  const recoveries = recovery ? [seconds(recovery.median), seconds(recovery.longest)] : ['never', 'never']
  return [
    kind,
    String(times),
    ...TROUBLES.map((trouble) => String(troubles[trouble])),
    ...recoveries,
    seconds(longestSilence),
  ]
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  )
}

export function renderPage(document: FaultsDocument): string {
  const read = (name: string) => readFileSync(path.join(OWN_ROOT, 'bench/faults', name), 'utf8')
  const parts: Readonly<Record<string, string>> = {
    'page.js': read('page.js'),
    // "<" would end the script element early.
    data: JSON.stringify(document).replaceAll('<', '\\u003c'),
  }
  return read('page.html').replaceAll(/\/\*\{(.+?)\}\*\/|"\{(data)\}"/g, (_, name = 'data') => parts[name] ?? '')
}
