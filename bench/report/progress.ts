/** The line that shows how a run goes: rewritten in place on a terminal, one line a second elsewhere. */

import type { Progress } from '../generator/messages.ts'

export interface ProgressLine {
  /** Begins a part of the run and shows its counts once a second until the next call. */
  begin(phase: string, read?: () => Progress): void
  end(): void
}

const INTERVAL_MS = 1000

export function progressLine(out: NodeJS.WriteStream): ProgressLine {
  let timer: NodeJS.Timeout | undefined
  const write = (line: string) => {
    if (out.isTTY) out.write(`\r\x1b[K${line.slice(0, (out.columns || 80) - 1)}`)
    else out.write(`${line}\n`)
  }
  const end = () => {
    clearInterval(timer)
    timer = undefined
    if (out.isTTY) out.write('\r\x1b[K')
  }
  return {
    begin(phase, read) {
      end()
      write(phase)
      if (!read) return
      const startedAt = performance.now()
      let last = read().operations
      timer = setInterval(() => {
        const now = read()
        const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
        const counts = (['failed', 'refused', 'dropped'] as const).filter((name) => now[name] > 0)
        const others = counts.map((name) => `, ${now[name]} ${name}`).join('')
        write(`${phase} ${seconds} s: ${now.operations - last}/s, ${now.operations} done${others}`)
        last = now.operations
      }, INTERVAL_MS)
    },
    end,
  }
}
