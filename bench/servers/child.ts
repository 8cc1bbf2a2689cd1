/** A server as a process of the bench: started, waited for until it answers, and ended whatever happens. */

import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { familyOf } from '../measure/server-cpu.ts'

/**
 * @param signal Ends the program and what it has started; when they are gone, and write nowhere any more, it throws its reason.
 * @returns what the program wrote to standard output, trimmed. @throws Error with all it wrote when it fails.
 */
export async function outputOf(
  file: string,
  args: readonly string[],
  cwd: string,
  signal: AbortSignal,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  signal.throwIfAborted()
  // A process group of its own: it can be ended as a whole, and Ctrl-C is for the bench.
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const end = () => child.pid !== undefined && killIfThere(-child.pid, 'SIGTERM')
  signal.addEventListener('abort', end)
  let [output, everything] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    everything += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    everything += text
  })
  try {
    const code = await new Promise((resolve, reject) => {
      child.once('error', reject)
      // All that hold the pipes have ended then.
      child.once('close', resolve)
    })
    if (code === 0) return output.trim()
  } finally {
    signal.removeEventListener('abort', end)
  }
  signal.throwIfAborted()
  throw new Error(`${file} ${args.join(' ')} failed in ${cwd}:\n${everything.trim()}`)
}

/** @param pid a process id, or a process group's id with a minus sign */
function killIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The first start may make a database and a CA: some seconds, more on a busy machine. */
const START_TIMEOUT_MS = 90_000
const STOP_TIMEOUT_MS = 30_000
const MAX_COMPLAINT_CHARACTERS = 4000
/** This check only asks whether the server answers; the run checks the certificate with the root of the new CA. */
const ANYBODY = { connect: { rejectUnauthorized: false } }

interface ChildSettings {
  /** For people. */
  name: string
  command: readonly string[]
  cwd: string
  environment?: Readonly<Record<string, string>>
  /** A list as taskset(1) takes it; undefined binds the server to no processor. */
  cpus: string | undefined
  /** URL of a directory; the server is there when it is. */
  answersAt: string
}

interface Child {
  pid: number
  /** Asks it to end, and makes it when it does not. */
  stop(): Promise<void>
}

/** @throws Error with what the server said, when it did not start */
export async function startChild(settings: ChildSettings, signal: AbortSignal): Promise<Child> {
  const { name, command, cwd, environment, cpus, answersAt } = settings
  const [file = '', ...args] = cpus === undefined ? command : ['taskset', '-c', cpus, ...command]
  // A process group of its own: Ctrl-C is for the bench, which ends its servers in order.
  const env = { ...process.env, ...environment }
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    said = `${said}${chunk}`.slice(-MAX_COMPLAINT_CHARACTERS)
  })
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('exit', (code, by) => resolve(`it ended with ${by ?? code}`))
  })
  if (child.pid !== undefined) startGuard(child)
  const stop = () => stopChild(child, exited)
  const over = new AbortController()
  try {
    const ended = exited.then((reason) => Promise.reject(new Error(reason)))
    await Promise.race([untilAnswered(answersAt, AbortSignal.any([signal, over.signal])), ended])
    return { pid: child.pid as number, stop }
  } catch (cause) {
    await stop()
    signal.throwIfAborted()
    throw new Error(`${name} did not start: ${(cause as Error).message}\n${said}`.trim(), { cause })
  } finally {
    over.abort()
  }
}

/** Asks the server to end should the bench be killed: its pipe closes then. A process group keeps it from going too. */
function startGuard(server: ChildProcess): void {
  const script = 'read -r _; kill -TERM "$1"'
  const guard = spawn('/bin/sh', ['-c', script, 'bench-guard', String(server.pid)], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // It must end before its pipe closes: the guard would signal the next process with the server's number.
  server.once('exit', () => guard.kill('SIGKILL'))
}

async function stopChild(child: ChildProcess, exited: Promise<string>): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGTERM')
  const inTime = await Promise.race([exited, delay(STOP_TIMEOUT_MS, undefined, { ref: false })])
  if (inTime !== undefined) return
  for (const { pid } of familyOf(child.pid)) killIfThere(pid, 'SIGKILL')
  await exited
}

async function untilAnswered(url: string, signal: AbortSignal): Promise<void> {
  const dispatcher = new Agent(ANYBODY)
  const end = performance.now() + START_TIMEOUT_MS
  try {
    for (;;) {
      const status = await request(url, { dispatcher, headersTimeout: 2000 }).then(
        ({ statusCode, body }) => body.dump().then(() => statusCode),
        () => 0,
      )
      if (status === 200) return
      if (performance.now() > end) throw new Error(`no answer from ${url} in ${START_TIMEOUT_MS / 1000} s`)
      await delay(100, undefined, { signal })
    }
  } finally {
    await dispatcher.destroy()
  }
}

const FIRST = 10_000
const LAST = 19_999

const given = new Set<number>()

/** @returns a port of 127.0.0.1 that was free a moment ago; never the same one twice. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1))
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
