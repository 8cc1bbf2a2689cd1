/**
 * The signer as a child process, used when `ca.signer.socket` names no running signer.
 *
 * It is restarted when it dies, and stopped last. This process passes on paths and the PIN; it
 * opens neither key file nor token.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { PIN_REFUSED_EXIT_CODE } from '../../signer/protocol/signer-errors.ts'
import { decideRestart, NO_FAILURES } from '../runtime/supervision.ts'
import { programFile } from '../shared/lib/program-files.ts'
import { makePlace, type SignerPlace } from './signer-place.ts'

/** The parts that the signer starts with (`src/settings/signer-settings.ts`). */
export interface SignerProgram {
  /** The audit chain; the folder of the signer is beside it (signer-place.ts). */
  auditFile: string
  environment: NodeJS.ProcessEnv
  configFor(place: SignerPlace): object
}

export interface SignerProcess extends SignerPlace {
  pid(): number | undefined
  /** Waits for an orderly end, and kills the process at the deadline. */
  stop(deadlineMs: number): Promise<void>
}

const PROGRAM = fileURLToPath(programFile('signer/start.cts'))
const READY_TIMEOUT_MS = 15_000
/** It needs 28 MB less so (docs/decisions/mechanisms.md). `bin/chancery-signer` of the packages has the flag too. */
const SMALL_YOUNG = '--max-semi-space-size=2'
/** Restarts have no practical limit: nothing is issued without the signer, and nothing else depends on it. */
const RESTART = { initialDelayMs: 100, maxDelayMs: 10_000, maxRestarts: 1_000_000, windowMs: 60_000 }

/**
 * @param waitMs how long another process may still have its signer on the audit chain
 * @throws AuditChainInUse after that; Error in a plain sentence when the first start fails
 */
export async function startSignerProcess(program: SignerProgram, log: Logger, waitMs: number): Promise<SignerProcess> {
  const { configFile, remove, ...place } = await makePlace(program.auditFile, waitMs)

  let child: ChildProcess
  let history = NO_FAILURES
  let stopping = false

  async function start(): Promise<void> {
    // A separate session keeps Ctrl-C from the signer, which must outlive the service's last
    // signature. The signer ends when this process dies, because its standard input closes.
    child = spawn(process.execPath, [SMALL_YOUNG, PROGRAM, 'serve', '-c', configFile, '--with-parent'], {
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: program.environment,
    })
    await untilReady(child, log)
    child.once('exit', (code, signal) => {
      if (!stopping) restart(`exit ${code ?? signal}`)
    })
  }

  /** A wrong PIN is not retried, because retries could lock the token. The operator corrects it and restarts. */
  function restartUnlessPinRefused(error: Error): void {
    if (error instanceof SignerDidNotStart && error.code === PIN_REFUSED_EXIT_CODE) {
      log.error({ reason: error.message }, 'the signer is not started again')
    } else restart(error.message)
  }

  function restart(reason: string): void {
    const { decision, history: next } = decideRestart(RESTART, history, performance.now())
    history = next
    const delayMs = decision.action === 'restart' ? decision.delayMs : RESTART.maxDelayMs
    log.error({ reason, restartInMs: delayMs }, 'the signer has ended')
    setTimeout(() => {
      if (stopping) return
      start().then(() => log.info({ pid: child.pid }, 'signer restarted'), restartUnlessPinRefused)
    }, delayMs).unref()
  }

  try {
    writeFileSync(place.secretFile, randomBytes(32).toString('hex'), { mode: 0o600 })
    writeFileSync(configFile, JSON.stringify(program.configFor(place), null, 2), { mode: 0o600 })
    await start()
  } catch (error) {
    remove()
    throw error
  }
  return {
    ...place,
    pid: () => child.pid,
    async stop(deadlineMs) {
      stopping = true
      if (child.exitCode === null && child.signalCode === null) {
        const exited = new Promise((resolve) => child.once('exit', resolve))
        child.kill('SIGTERM')
        const timer = setTimeout(() => child.kill('SIGKILL'), deadlineMs)
        await exited
        clearTimeout(timer)
      }
      remove()
    },
  }
}

class SignerDidNotStart extends Error {
  readonly code: number | null

  constructor(message: string, code: number | null) {
    super(message)
    this.code = code
  }
}

/** Resolves at the line "signer ready", and copies every signer line to our log. */
function untilReady(child: ChildProcess, log: Logger): Promise<void> {
  return new Promise((resolve, reject) => {
    const complaints: string[] = []
    let isReady = false
    const timer = setTimeout(() => child.kill('SIGKILL'), READY_TIMEOUT_MS)
    const onExit = (code: number | null, signal: NodeJS.Signals | null) => {
      clearTimeout(timer)
      const said = complaints.join('; ') || 'it said nothing'
      reject(new SignerDidNotStart(`the signer did not start (${code ?? signal}): ${said}`, code))
    }
    child.once('error', reject)
    child.once('exit', onExit)
    if (child.stderr) {
      createInterface({ input: child.stderr }).on('line', (line) => {
        if (!isReady) complaints.push(line.replace(/^chancery-signer: /, ''))
        log.warn({ process: 'signer' }, line)
      })
    }
    if (!child.stdout) return
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { level, time: _time, hostname: _hostname, name: _name, message, ...facts } = parseLogLine(line)
      log[level]({ process: 'signer', ...facts }, message)
      if (message === 'signer ready') {
        isReady = true
        clearTimeout(timer)
        // Removes only this listener: a stop may already wait for the exit.
        child.off('exit', onExit)
        resolve()
      }
    })
  })
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const

interface SignerLine {
  level: (typeof LEVELS)[number]
  message: string
  [fact: string]: unknown
}

function parseLogLine(line: string): SignerLine {
  try {
    const entry = JSON.parse(line) as SignerLine
    return { ...entry, level: LEVELS.find((level) => level === entry.level) ?? 'info' }
  } catch {
    return { level: 'warn', message: line }
  }
}
