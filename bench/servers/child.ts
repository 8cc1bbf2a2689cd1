/** A server as a process of the bench: started, waited for until it answers, and ended whatever happens. */

import { type ChildProcess, spawn } from 'node:child_process'
import { get } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { familyOf, readProcesses } from '../measure/proc-stat.ts'

/** The first start may make a database and a CA: some seconds, more on a busy machine. */
const START_TIMEOUT_MS = 90_000
const STOP_TIMEOUT_MS = 30_000
const MAX_COMPLAINT_CHARACTERS = 4000

export interface ChildSettings {
  /** For people. */
  name: string
  command: readonly string[]
  cwd: string
  environment?: Readonly<Record<string, string>>
  /** As taskset(1) takes them; undefined binds the server to no processor. */
  cpus: string | undefined
  /** URL of a directory; the server is there when it is. */
  answersAt: string
}

export interface Child {
  pid: number
  /** Asks it to end, and makes it when it does not. */
  stop(): Promise<void>
}

/** @throws Error with what the server said, when it did not start. */
export async function startChild(settings: ChildSettings, signal: AbortSignal): Promise<Child> {
  const { name, command, cwd, environment, cpus, answersAt } = settings
  const [file = '', ...args] = cpus === undefined ? command : ['taskset', '-c', cpus, ...command]
  // A process group of its own: Ctrl-C is for the bench, which ends its servers in order.
  const child = spawn(file, args, {
    ...{ cwd, env: { ...process.env, ...environment }, detached: true },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const server = superviseChild(child)
  try {
    await Promise.race([awaitAnswer(answersAt, signal), server.ended])
    return { pid: child.pid as number, stop: server.stop }
  } catch (cause) {
    await server.stop()
    signal.throwIfAborted()
    throw new Error(`${name} did not start: ${(cause as Error).message}\n${server.said()}`.trim(), { cause })
  }
}

function superviseChild(child: ChildProcess) {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    text = `${text}${chunk}`.slice(-MAX_COMPLAINT_CHARACTERS)
  })
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, signal) => resolve(`it ended with ${signal ?? code}`))
  })
  const ended = exited.then((reason): never => {
    throw new Error(reason)
  })
  // Who waits for the start gets the reason; a later end shows as failures of the run, and must not be an unhandled rejection.
  ended.catch(() => undefined)
  return {
    said: () => text,
    ended,
    async stop() {
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const inTime = await Promise.race([exited, delay(STOP_TIMEOUT_MS, undefined, { ref: false })])
      if (inTime !== undefined) return
      for (const { pid } of familyOf(child.pid, readProcesses())) killIfThere(pid)
      await exited
    },
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

async function awaitAnswer(url: string, signal: AbortSignal): Promise<void> {
  const end = performance.now() + START_TIMEOUT_MS
  while (!(await answers(url))) {
    if (performance.now() > end) throw new Error(`no answer from ${url} in ${START_TIMEOUT_MS / 1000} s`)
    await delay(100, undefined, { signal })
  }
}

/** Whether a directory is there; who answers is checked by the run itself, with the root of the new CA. */
function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(url, { rejectUnauthorized: false, agent: false, timeout: 2000 }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(false))
  })
}
