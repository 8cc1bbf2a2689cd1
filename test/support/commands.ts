/** Commands of `chancery` with what they print. They share a process (`command-process.ts`), and run one after the other. */

import { type ChildProcess, fork } from 'node:child_process'
import path from 'node:path'
import type { CommandEnd, CommandRequest } from './command-process.ts'

export interface CommandResult {
  code: number | null
  stdout: string
  stderr: string
}

const PROCESS = path.resolve(import.meta.dirname, 'command-process.js')

let child: ChildProcess | undefined
let count = 0
const waiting = new Map<number, { resolve(result: CommandResult): void; reject(error: Error): void }>()

/** @param words as typed behind `chancery`. @param env laid over the environment */
export function runChancery(words: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  child ??= start()
  const running = child
  const request: CommandRequest = { id: ++count, words, env }
  return new Promise((resolve, reject) => {
    waiting.set(request.id, { resolve, reject })
    // The test waits for this command, and does not wait for the process when it has ended.
    running.channel?.ref()
    running.send(request)
  })
}

function start(): ChildProcess {
  const started = fork(PROCESS, { execArgv: [] })
  started.on('message', ({ id, ...result }: CommandEnd) => {
    waiting.get(id)?.resolve(result)
    waiting.delete(id)
    if (waiting.size === 0) started.channel?.unref()
  })
  started.once('exit', (code, signal) => {
    child = undefined
    for (const { reject } of waiting.values()) reject(new Error(`the process of the commands ended: ${code ?? signal}`))
    waiting.clear()
  })
  started.unref()
  return started
}
