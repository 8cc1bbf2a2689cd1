/** Shows what `db migrate` does on standard error: on a terminal in one line that changes, elsewhere line by line. */

import { type Report, sparingly } from '../../store/schema/waiting.ts'

interface Output {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export function showProgress(out: Output = process.stderr): Report {
  if (!out.isTTY) return sparingly((sentence) => out.write(`${sentence}\n`))
  const clear = '\r\u001b[K'
  return (sentence, isPassing) =>
    out.write(isPassing ? `${clear}${sentence.slice(0, (out.columns ?? 80) - 1)}` : `${clear}${sentence}\n`)
}
