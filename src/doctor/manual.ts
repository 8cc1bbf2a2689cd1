/** The table of checks in docs/operations/doctor.md. */

import { areaOf } from './check.ts'
import { CHECKS } from './checks.ts'
import { AREA_NAMES, AREAS } from './verdict.ts'

const [BEGIN, END] = ['<!-- checks -->\n', '<!-- end of checks -->']

/** @returns the document with the table as it is now */
export function withChecks(document: string): string {
  const [before = '', rest = ''] = document.split(BEGIN)
  const after = rest.slice(rest.indexOf(END))
  return `${before}${BEGIN}\n${tableOfChecks()}\n\n${after}`
}

function tableOfChecks(): string {
  const rows = AREA_NAMES.flatMap((area) => [
    `| **${AREAS[area]}** (\`${area}\`) | |`,
    ...CHECKS.filter((check) => areaOf(check) === area).map(({ id, title }) => `| \`${id}\` | ${title} |`),
  ])
  return ['| Check | What is right |', '|---|---|', ...rows].join('\n')
}
