/**
 * The signer as a child process, where `ca.signer.socket` names no running one: started with a configuration made from
 * `ca.internal` or `ca.hsm`, restarted when it dies, stopped last. This process hands over paths and the PIN, and opens
 * neither key file nor token.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { PIN_REFUSED_EXIT_CODE } from '../../signer/protocol.ts'
import type { Config } from '../config/schema.ts'
import { SUBJECT_KEY_KINDS } from '../domain/subject-key.ts'
import { decideRestart, NO_FAILURES } from '../runtime/supervision.ts'
import { keyUsagesFor } from '../shared/pki/extensions.ts'

export interface SignerPlace {
  socketPath: string
  secretFile: string
}

export interface SignerProcess extends SignerPlace {
  pid(): number | undefined
  /** Waits for the orderly end; after the deadline the process is killed. */
  stop(deadlineMs: number): Promise<void>
}

const PROGRAM = fileURLToPath(new URL('../../signer/start.cjs', import.meta.url))
const READY_TIMEOUT_MS = 15_000
/** A signer that keeps dying is started again for ever: without it nothing is issued, and nothing else depends on it. */
const RESTART = { initialDelayMs: 100, maxDelayMs: 10_000, maxRestarts: 1_000_000, windowMs: 60_000 }
/** Signing options that have no place in the service's configuration are the signer's defaults. */
const ISSUER_ID = 'default'
const PIN_VARIABLE = 'CHANCERY_SIGNER_PIN'
/** What the signer accepts; no request waits that long. */
const MAX_SESSION_WAIT_SECONDS = 3600

/** @throws Error in a plain sentence when the first start fails */
export async function startSignerProcess(config: Config, log: Logger): Promise<SignerProcess> {
  // The socket's folder must be short (107 bytes) and closed to others.
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-signer-'))
  const place = { socketPath: path.join(folder, 'signer.sock'), secretFile: path.join(folder, 'secret') }
  const configFile = path.join(folder, 'signer.yaml')
  writeFileSync(place.secretFile, randomBytes(32).toString('hex'), { mode: 0o600 })
  writeFileSync(configFile, JSON.stringify(signerConfig(config, place), null, 2), { mode: 0o600 })

  let child: ChildProcess
  let history = NO_FAILURES
  let stopping = false

  async function start(): Promise<void> {
    // A session of its own: a Ctrl-C in the terminal is for the service, which stops the signer after its last signature.
    // Its standard input ends with this process, however that ends.
    child = spawn(process.execPath, [PROGRAM, 'serve', '-c', configFile, '--with-parent'], {
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
      env: signerEnvironment(config.ca),
    })
    await untilReady(child, log)
    child.once('exit', (code, signal) => {
      if (!stopping) restart(`exit ${code ?? signal}`)
    })
  }

  /** Its next attempts could lock the token, so they are left to whoever corrects the PIN and starts the service again. */
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

  const removeFolder = () => rmSync(folder, { recursive: true, force: true })
  try {
    await start()
  } catch (error) {
    removeFolder()
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
      removeFolder()
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

/**
 * A PKCS#11 library may need any variable of its vendor's, so it gets all there are: it runs as the same user, who could
 * read them anyway. The PIN goes this way too, rather than through a file.
 */
function signerEnvironment({ backend, hsm }: Config['ca']): NodeJS.ProcessEnv {
  const { PATH } = process.env
  if (backend !== 'hsm') return { PATH, NODE_OPTIONS: '' }
  return {
    ...process.env,
    NODE_OPTIONS: '',
    ...(hsm.login_required && hsm.pin !== null && { [PIN_VARIABLE]: hsm.pin }),
  }
}

function signerConfig(config: Config, place: SignerPlace): object {
  const { ca, logging } = config
  const issuer = ca.backend === 'hsm' ? tokenIssuer(ca.hsm) : fileIssuer(ca.internal)
  return {
    socket: place.socketPath,
    secret_file: place.secretFile,
    audit: { file: path.resolve(ca.signer.audit_file ?? auditFileBeside(ca)) },
    log: { level: logging.level === 'DEBUG' ? 'debug' : 'info' },
    issuers: [{ id: ISSUER_ID, ...issuer, policy: signerPolicy(config) }],
  }
}

function auditFileBeside({ backend, internal, hsm }: Config['ca']): string {
  const beside = backend === 'hsm' ? hsm.issuer_cert_path : internal.root_key_path
  return path.join(path.dirname(beside ?? '.'), 'signer-audit.jsonl')
}

function fileIssuer(internal: Config['ca']['internal']): object {
  return {
    certificate: path.resolve(internal.root_cert_path ?? ''),
    ...(internal.chain_path !== null && { chain: path.resolve(internal.chain_path) }),
    hash: internal.hash_algorithm,
    key: { file: path.resolve(internal.root_key_path ?? '') },
  }
}

function tokenIssuer(hsm: Config['ca']['hsm']): object {
  const library = hsm.pkcs11_library ?? ''
  return {
    certificate: path.resolve(hsm.issuer_cert_path ?? ''),
    ...(hsm.chain_path !== null && { chain: path.resolve(hsm.chain_path) }),
    hash: hsm.hash_algorithm,
    key: {
      pkcs11: {
        library: library.includes('/') ? path.resolve(library) : library,
        ...(hsm.token_label !== null && { token: hsm.token_label }),
        ...(hsm.slot_id !== null && { slot: hsm.slot_id }),
        ...(hsm.login_required ? { pin_env: PIN_VARIABLE } : { login: false }),
        ...(hsm.key_label !== null && { label: hsm.key_label }),
        ...(hsm.key_id !== null && { id: hsm.key_id }),
        type: hsm.key_type,
        sessions: hsm.session_pool_size,
        session_wait: Math.min(MAX_SESSION_WAIT_SECONDS, hsm.session_pool_timeout_seconds),
      },
    },
  }
}

/** No wider than the profiles need: a front that was taken over gets nothing more out of the signer. */
function signerPolicy({ ca, order, crl }: Config): object {
  const profiles = Object.values(ca.profiles)
  const union = <T>(values: (profile: (typeof profiles)[number]) => readonly T[]) => [
    ...new Set(profiles.flatMap((profile) => [...values(profile)])),
  ]
  const keyUsages = union((profile) => profile.key_usages)
  const leavesKeyUsageOut = profiles.some(({ key_types, key_usages }) =>
    key_types.some((type) => keyUsagesFor(SUBJECT_KEY_KINDS[type], key_usages).length === 0),
  )
  const extendedKeyUsages = union((profile) => profile.extended_key_usages)
  return {
    // One day more than the longest profile, for a validity that is requested to the second.
    max_validity_days: Math.min(3660, ca.max_validity_days + 1),
    // A start may be asked for up to the end of the order, and be back-dated at its beginning.
    max_start_offset_days: Math.min(3660, (order.expiry_seconds + ca.backdate_seconds) / 86_400 + 1),
    max_crl_validity_days: Math.ceil(crl.next_update_seconds / 86_400),
    key_types: union((profile) => profile.key_types),
    ...(keyUsages.length > 0 && { key_usages: keyUsages }),
    key_usage_required: !leavesKeyUsageOut,
    ...(extendedKeyUsages.length > 0 && { extended_key_usages: extendedKeyUsages }),
  }
}

/** Resolves at the line "signer ready"; every line of the signer goes into our log. */
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
      const { level, time: _time, hostname: _hostname, name: _name, msg, ...facts } = parseLogLine(line)
      log[level]({ process: 'signer', ...facts }, msg)
      if (msg === 'signer ready') {
        isReady = true
        clearTimeout(timer)
        // No other: a stop may wait for the end already.
        child.off('exit', onExit)
        resolve()
      }
    })
  })
}

const LEVELS = { 10: 'trace', 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' } as const

function parseLogLine(line: string): {
  level: (typeof LEVELS)[keyof typeof LEVELS]
  msg: string
  [fact: string]: unknown
} {
  try {
    const entry = JSON.parse(line) as { level: keyof typeof LEVELS; msg: string }
    return { ...entry, level: LEVELS[entry.level] ?? 'info' }
  } catch {
    return { level: 'warn', msg: line }
  }
}
