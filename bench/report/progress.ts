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
  /** Says where a part that has counts has ended; on a terminal nobody could read it. */
  let conclude: () => void = () => undefined

  const write = (line: string) => {
    if (out.isTTY) out.write(`\r\x1b[K${line.slice(0, (out.columns || 80) - 1)}`)
    else out.write(`${line}\n`)
  }
  const end = () => {
    clearInterval(timer)
    timer = undefined
    conclude()
    conclude = () => undefined
    if (out.isTTY) out.write('\r\x1b[K')
  }
  return {
    begin(phase, read) {
      end()
      write(phase)
      if (!read) return
      const startedAt = performance.now()
      const seconds = () => (performance.now() - startedAt) / 1000
      let last = read()
      if (!out.isTTY) conclude = () => write(renderCounts(phase, seconds(), read()))
      timer = setInterval(() => {
        const now = read()
        write(renderCounts(phase, seconds(), now, now.operations - last.operations))
        last = now
      }, INTERVAL_MS)
    },
    end,
  }
}

/** @param perSecond In the last second; absent in the end. */
function renderCounts(phase: string, seconds: number, progress: Progress, perSecond?: number): string {
  const others = (['failures', 'refused', 'dropped'] as const)
    .filter((name) => progress[name] > 0)
    .map((name) => `, ${progress[name]} ${name === 'failures' ? 'failed' : name}`)
  const rate = perSecond === undefined ? '' : `${perSecond}/s, `
  return `${phase} ${seconds.toFixed(0)} s: ${rate}${progress.operations} done${others.join('')}`
}
