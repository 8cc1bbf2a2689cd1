/** Shows what `db migrate` does on standard error: on a terminal in one line that changes, elsewhere line by line. */

import type { Report } from '../../store/schema/waiting.ts'

/** Of sentences that pass, one in this time where each is a line. */
const EVERY_MS = 10_000

interface Output {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export function showProgress(out: Output = process.stderr): Report {
  return out.isTTY ? onTerminal(out) : inLines(out)
}

function onTerminal(out: Output): Report {
  const clear = '\r\u001b[K'
  return (sentence, isPassing) =>
    out.write(isPassing ? `${clear}${sentence.slice(0, (out.columns ?? 80) - 1)}` : `${clear}${sentence}\n`)
}

function inLines(out: Output): Report {
  let last = { sentence: '', at: Number.NEGATIVE_INFINITY }
  return (sentence, isPassing) => {
    const now = performance.now()
    if (isPassing && (sentence === last.sentence || now - last.at < EVERY_MS)) return
    last = { sentence, at: now }
    out.write(`${sentence}\n`)
  }
}
