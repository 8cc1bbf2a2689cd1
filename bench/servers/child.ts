/** A server as a process of the bench: started, waited for until it answers, and ended whatever happens, a killed bench included. */

import { type ChildProcess, spawn } from 'node:child_process'
import { get } from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { familyOf, readProcesses } from '../measure/proc-stat.ts'
import { killIfThere } from './program.ts'

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
  const over = new AbortController()
  try {
    await Promise.race([awaitAnswer(answersAt, AbortSignal.any([signal, over.signal])), server.ended])
    return { pid: child.pid as number, stop: server.stop }
  } catch (cause) {
    await server.stop()
    signal.throwIfAborted()
    throw new Error(`${name} did not start: ${(cause as Error).message}\n${server.said()}`.trim(), { cause })
  } finally {
    over.abort()
  }
}

/** Waits for the pipe to close, which it does when the bench has ended, however it did. */
const GUARD_SCRIPT = 'read -r _; kill -TERM "$1"'

/** Asks the server to end should the bench be killed. Its own process group keeps it from going the same way. */
function startGuard(serverPid: number): ChildProcess {
  return spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'bench-guard', String(serverPid)], {
    ...{ cwd: '/', detached: true, stdio: ['pipe', 'ignore', 'ignore'] },
  })
}

function superviseChild(child: ChildProcess) {
  const guard = child.pid === undefined ? undefined : startGuard(child.pid)
  // Before its pipe closes: it would signal whoever gets the number of the server next.
  child.once('exit', () => guard?.kill('SIGKILL'))
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
      for (const { pid } of familyOf(child.pid, readProcesses())) killIfThere(pid, 'SIGKILL')
      await exited
    },
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
