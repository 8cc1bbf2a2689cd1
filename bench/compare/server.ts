/** One build as a running service: embedded development mode, with a database, a CA and ports of its own. */

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { get } from 'node:https'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { familyOf, readProcesses } from '../measure/proc-stat.ts'
import type { ResponderPlaces } from '../responder/responders.ts'
import { type Build, outputOf } from './build.ts'
import { freePort } from './free-port.ts'

export interface Server {
  directoryUrl: string
  /** Where it looks for answers to challenges. */
  responders: ResponderPlaces
  /** PEM of the root that TLS and issued chains lead to. */
  root: string
  pid: number
  /** Asks it to end, and makes it when it does not; its database ends with it. */
  stop(): Promise<void>
}

export interface ServerSettings {
  dataDir: string
  /** Front threads; undefined leaves it to the build. */
  workers: number | undefined
  /** As taskset(1) takes them; undefined binds the server to no processor. */
  cpus: string | undefined
  /** Module of a validator, when the challenge needs one. */
  validator: string | undefined
  /** Offers the methods of DNS, and asks the bench. */
  asksDns: boolean
  /** Beside the bench's own. */
  environment?: Readonly<Record<string, string>>
}

/** The first start makes a database and a CA: some seconds, more on a busy machine. */
const START_TIMEOUT_MS = 90_000
const STOP_TIMEOUT_MS = 30_000
const MAX_COMPLAINT_CHARACTERS = 4000

/** @throws Error with what the service said, when it did not start. */
export async function startServer(build: Build, settings: ServerSettings, signal: AbortSignal): Promise<Server> {
  const cli = path.join(build.root, 'dist/src/main/cli.js')
  const known = flagsIn(await outputOf(process.execPath, [cli, 'serve', '--help'], build.root, signal))
  const port = await freePort()
  const responders = {
    host: '127.0.0.1',
    http01Port: await freePort(),
    dnsPort: settings.asksDns ? await freePort() : 0,
    tlsAlpn01Port: known.has('tlsalpn01-port') ? await freePort() : 0,
  }
  const words = serverFlags(
    {
      'data-dir': settings.dataDir,
      port,
      'http01-port': responders.http01Port,
      'dns01-port': responders.dnsPort || undefined,
      'tlsalpn01-port': responders.tlsAlpn01Port || undefined,
      workers: settings.workers,
      validator: settings.validator,
    },
    known,
    build.name,
  )
  const command = [process.execPath, '--enable-source-maps', cli, '--dev', ...words]
  const [file = '', ...args] = settings.cpus === undefined ? command : ['taskset', '-c', settings.cpus, ...command]
  // A process group of its own: Ctrl-C is for the bench, which ends its servers in order.
  const child = spawn(file, args, {
    cwd: build.root,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...settings.environment },
  })
  const server = superviseChild(child)
  try {
    const directoryUrl = `https://localhost:${port}/directory`
    await Promise.race([awaitAnswer(directoryUrl, signal), server.ended])
    const root = readFileSync(path.join(settings.dataDir, 'ca/root.pem'), 'utf8')
    return { directoryUrl, responders, root, pid: child.pid as number, stop: server.stop }
  } catch (cause) {
    await server.stop()
    signal.throwIfAborted()
    throw new Error(`${build.name} did not start: ${(cause as Error).message}\n${server.said()}`.trim(), { cause })
  }
}

/** Flags that a command's `--help` names. */
export function flagsIn(help: string): Set<string> {
  return new Set([...help.matchAll(/(?<=^|[\s,])--([a-z][a-z0-9-]*)/gm)].map(([, flag]) => flag as string))
}

/** Words for those that have a value. @throws Error when the build does not know one of them. */
export function serverFlags(
  flags: Readonly<Record<string, string | number | undefined>>,
  known: ReadonlySet<string>,
  buildName: string,
): string[] {
  return Object.entries(flags).flatMap(([flag, value]) => {
    if (value === undefined) return []
    if (!known.has(flag)) throw new Error(`${buildName} does not know --${flag}, which this comparison needs`)
    return [`--${flag}`, String(value)]
  })
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
