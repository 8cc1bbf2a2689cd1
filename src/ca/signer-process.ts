/**
 * The signer as a child process, used when `ca.signer.socket` names no running signer.
 *
 * It is restarted when it dies, and stopped last. This process passes on paths and the PIN; it
 * opens neither key file nor token.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { PIN_REFUSED_EXIT_CODE } from '../../signer/protocol/errors.ts'
import { MAX_SOCKET_PATH_BYTES } from '../../signer/protocol/frames.ts'
import { identifyProcess } from '../runtime/process-identity.ts'
import { decideRestart, NO_FAILURES } from '../runtime/supervision.ts'
import { describeFileError } from '../shared/lib/file-error.ts'

export interface SignerPlace {
  socketPath: string
  secretFile: string
}

/** What the signer starts with (`src/settings/signer.ts`). */
export interface SignerProgram {
  /** The audit chain. Its folder also holds the signer's socket, secret and configuration. */
  auditFile: string
  environment: NodeJS.ProcessEnv
  configFor(place: SignerPlace): object
}

export interface SignerProcess extends SignerPlace {
  pid(): number | undefined
  /** Waits for an orderly end, and kills the process at the deadline. */
  stop(deadlineMs: number): Promise<void>
}

const PROGRAM = fileURLToPath(new URL('../../signer/start.cjs', import.meta.url))
const READY_TIMEOUT_MS = 15_000
const SOCKET_NAME = 'signer.sock'
const CONFIG_NAME = 'signer.yaml'
/** Stands between the audit file's name and the service's process id. */
const FOLDER_INFIX = '.signer-'
/**
 * Restarts have no practical limit: nothing is issued without the signer, and nothing else depends
 * on it.
 */
const RESTART = { initialDelayMs: 100, maxDelayMs: 10_000, maxRestarts: 1_000_000, windowMs: 60_000 }

/** @throws Error in a plain sentence when the first start fails */
export async function startSignerProcess(program: SignerProgram, log: Logger): Promise<SignerProcess> {
  const { folder, place, remove } = makePlace(program.auditFile)
  const configFile = path.join(folder, CONFIG_NAME)
  writeFileSync(place.secretFile, randomBytes(32).toString('hex'), { mode: 0o600 })
  writeFileSync(configFile, JSON.stringify(program.configFor(place), null, 2), { mode: 0o600 })

  let child: ChildProcess
  let history = NO_FAILURES
  let stopping = false

  async function start(): Promise<void> {
    // A separate session keeps Ctrl-C from the signer, which must outlive the service's last
    // signature. The signer ends when this process dies, because its standard input closes.
    child = spawn(process.execPath, [PROGRAM, 'serve', '-c', configFile, '--with-parent'], {
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: program.environment,
    })
    await untilReady(child, log)
    child.once('exit', (code, signal) => {
      if (!stopping) restart(`exit ${code ?? signal}`)
    })
  }

  /**
   * A wrong PIN is not retried, because retries could lock the token. The operator corrects it and
   * restarts.
   */
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

/**
 * Creates a folder beside the audit file. tmpfiles.d empties temporary folders after ten days; a
 * restarted signer or front thread would then find neither secret nor configuration.
 */
function makePlace(auditFile: string): { folder: string; place: SignerPlace; remove(): void } {
  const folder = `${auditFile}${FOLDER_INFIX}${process.pid}`
  try {
    removeAbandoned(auditFile)
    mkdirSync(folder, { mode: 0o700 })
  } catch (cause) {
    const sentence = 'the folder of the audit chain (ca.signer.audit_file) has to be there, and to belong to this user'
    throw new Error(`${folder}: ${describeFileError(cause)}; ${sentence}`, { cause })
  }
  const beside = path.join(folder, SOCKET_NAME)
  const isShort = Buffer.byteLength(beside) <= MAX_SOCKET_PATH_BYTES
  // tmpfiles.d spares listening sockets, so a long path may move the socket to a temporary folder.
  const socketFolder = isShort ? folder : mkdtempSync(path.join(tmpdir(), 'chancery-signer-'))
  return {
    folder,
    place: { socketPath: path.join(socketFolder, SOCKET_NAME), secretFile: path.join(folder, 'secret') },
    remove() {
      for (const one of new Set([folder, socketFolder])) rmSync(one, { recursive: true, force: true })
    },
  }
}

/**
 * The signer of a service that runs on the same audit chain. A second writer would stop the chain.
 * @throws Error in a plain sentence when this user may not use it
 */
export function findRunningSigner({ auditFile }: Pick<SignerProgram, 'auditFile'>): SignerPlace | undefined {
  const folder = placesBeside(auditFile).find(({ pid }) => pid !== process.pid && identifyProcess(pid))?.folder
  if (folder === undefined) return undefined
  try {
    const config = JSON.parse(readFileSync(path.join(folder, CONFIG_NAME), 'utf8')) as Record<string, string>
    return { socketPath: config['socket'] ?? '', secretFile: config['secret_file'] ?? '' }
  } catch (cause) {
    throw new Error(`${folder}: a service has its signer there, and it cannot be used: ${describeFileError(cause)}`, {
      cause,
    })
  }
}

/** Folders of services, by process id. */
function placesBeside(auditFile: string): { folder: string; pid: number }[] {
  const [parent, prefix] = [path.dirname(auditFile), `${path.basename(auditFile)}${FOLDER_INFIX}`]
  const names = existsSync(parent) ? readdirSync(parent).filter((name) => name.startsWith(prefix)) : []
  return names
    .map((name) => ({ folder: path.join(parent, name), pid: Number(name.slice(prefix.length)) }))
    .filter(({ pid }) => Number.isSafeInteger(pid) && pid > 0)
}

/** Removes folders of killed services, including one that had this process's id. */
function removeAbandoned(auditFile: string): void {
  for (const { folder, pid } of placesBeside(auditFile))
    if (pid === process.pid || !identifyProcess(pid)) rmSync(folder, { recursive: true, force: true })
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
