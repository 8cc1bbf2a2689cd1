/** A program of the stand: started, ended in every way that a bad day has, and started again when it died by itself. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export interface PartOptions {
  name: string
  command: readonly [string, ...string[]]
  /** Variables beside the environment of this process. */
  env?: Readonly<Record<string, string>>
  /** Its user, where this process is root and it must not be. */
  runAs?: { uid: number; gid: number } | undefined
  /** Where standard output and standard error go. */
  logFile: string
  /** The signal of an orderly end; SIGTERM for most. */
  endsBy?: NodeJS.Signals
  isReady(): Promise<boolean>
}

/** systemd waits so long with `RestartSec`. */
const RESTART_MS = 1_000
const READY_MS = 120_000
const LOOK_MS = 50
/** An orderly end that takes longer counts as none, as with systemd. */
const END_MS = 60_000

export class Part {
  readonly name: string
  /** When it ended though nobody had asked it to. */
  readonly deaths: Date[] = []
  readonly #options: PartOptions
  #child: ChildProcess | undefined
  #isWanted = false

  constructor(options: PartOptions) {
    this.name = options.name
    this.#options = options
  }

  get pid(): number | undefined {
    return isRunning(this.#child) ? this.#child?.pid : undefined
  }

  get isReady(): Promise<boolean> {
    return this.pid === undefined ? Promise.resolve(false) : this.#options.isReady()
  }

  /** Starts it; it may not be ready yet. */
  start(): void {
    this.#isWanted = true
    if (this.pid !== undefined) return
    const { command, env, runAs, logFile } = this.#options
    const log = openSync(logFile, 'a')
    // The kernel ends it should this process be killed.
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...command], {
      ...runAs,
      cwd: '/',
      stdio: ['ignore', log, log],
      // Ctrl-C is for this process, which ends its parts in order.
      detached: true,
      env: { ...process.env, ...env },
    })
    closeSync(log)
    this.#child = child
    child.once('exit', () => {
      if (!this.#isWanted) return
      this.deaths.push(new Date())
      setTimeout(() => this.#isWanted && this.start(), RESTART_MS)
    })
  }

  /** @throws Error when it is not ready in time */
  async untilReady(withinMs = READY_MS): Promise<void> {
    const deadline = performance.now() + withinMs
    while (!(await this.isReady)) {
      if (performance.now() > deadline) throw new Error(`${this.name} is not ready; see ${this.#options.logFile}`)
      await sleep(LOOK_MS)
    }
  }

  /** SIGKILL. */
  kill(): Promise<void> {
    return this.#end('SIGKILL')
  }

  /** An orderly end, and SIGKILL where it does not come. */
  async stop(): Promise<void> {
    const late = setTimeout(() => this.#child?.kill('SIGKILL'), END_MS)
    await this.#end(this.#options.endsBy ?? 'SIGTERM')
    clearTimeout(late)
  }

  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  /** SIGHUP: read the configuration again. */
  reload(): void {
    this.#child?.kill('SIGHUP')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#isWanted = false
    const child = this.#child
    if (!child || !isRunning(child)) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }
}

const isRunning = (child: ChildProcess | undefined): boolean =>
  child?.pid !== undefined && child.exitCode === null && child.signalCode === null
