/** Starts the probe of the crypto floor (floor-probe.ts) on the processors of a server, and asks it for its figures. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { CryptoCosts } from './crypto-floor.ts'

const PROBE = fileURLToPath(new URL('./floor-probe.js', import.meta.url))
const ANSWER_MS = 5_000

/** A process that starts takes a tenth of a second from a processor, so it is started before anything is measured. */
export interface FloorBeside {
  begin(): void
  /** Undefined when it had no time to measure anything, or cannot run here. */
  end(): Promise<CryptoCosts | undefined>
  /** Ends the probe. */
  close(): void
}

/** @param pid of the service; undefined: it is elsewhere, and so are its processors */
export function startFloorBeside(pid: number | undefined): FloorBeside {
  const processors = pid === undefined ? undefined : processorsOf(pid)
  if (processors === undefined) return { begin: () => undefined, end: async () => undefined, close: () => undefined }
  const probe = fork(PROBE, { detached: true, execPath: 'taskset', execArgv: ['-c', processors, process.execPath] })
  let isOver = false
  // Without taskset there is a floor from before and after alone.
  probe.on('error', () => {
    isOver = true
  })
  probe.on('exit', () => {
    isOver = true
  })
  return {
    begin() {
      if (!isOver) probe.send('begin')
    },
    end: async () => (isOver ? undefined : await answerOf(probe)),
    close: () => void probe.kill(),
  }
}

async function answerOf(probe: ChildProcess): Promise<CryptoCosts | undefined> {
  try {
    const answer = once(probe, 'message', { signal: AbortSignal.timeout(ANSWER_MS) })
    probe.send('end')
    const [costs] = (await answer) as [CryptoCosts | null]
    return costs ?? undefined
  } catch {
    // It has ended meanwhile, or found no processor to answer on.
    return undefined
  }
}

/** As taskset(1) takes them (proc(5): status). */
function processorsOf(pid: number): string | undefined {
  try {
    return /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  } catch {
    return undefined
  }
}
