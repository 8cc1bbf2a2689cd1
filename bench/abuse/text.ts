/** A run beside an abuser as a text for a terminal. */

import { renderMeasured } from '../report/comparison-text.ts'
import type { Spread } from '../report/summary.ts'
import { number } from '../report/text.ts'
import type { AbuseResult } from './result.ts'

const MEGABYTE = 1_000_000

export function renderAbuse({ server, kind, connections, pauseMs, others, abuser }: AbuseResult): string {
  const left = others.figures.perSecond?.ratios[1]
  const verdict = left
    ? `the others keep ${percent(left.median)} of their throughput${rangeWords(left)}`
    : 'no whole round'
  return [
    `${server} beside one abusive client: ${kind}, ${connections} connections, one act in ${pauseMs} ms each`,
    `A alone, B beside it: ${verdict}`,
    ...renderMeasured(2, others),
    ...abuser.slice(-1).map((report) => {
      const answers = Object.entries(report.answers).map(([answer, count]) => `${count} × ${answer}`)
      return (
        `the abuser: ${report.opened} connections opened, ${report.closedByServer} ended by the server, ${report.acts} acts, ` +
        `${number(report.sentBytes / MEGABYTE)} MB sent, answers: ${answers.join(', ') || 'none'}`
      )
    }),
    '',
  ].join('\n')
}

/** Of one round there is none. */
function rangeWords({ lowest, highest }: Spread): string {
  return lowest === highest ? '' : ` (${percent(lowest)}–${percent(highest)})`
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}
