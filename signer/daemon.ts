/** Builds the daemon from its configuration, runs it until a signal, and stops it in order. */

import pino, { type Logger } from 'pino'
import { ignoreUserSignals, RELOAD_OR_STOP } from '../src/shared/lib/environment.ts'
import { LINES_LOST, LogOutput } from '../src/shared/lib/log-output.ts'
import { lockChain } from './audit/append-file.ts'
import { type AuditEvents, type OpenedAudit, openAuditChain } from './audit/chain.ts'
import type { SignerConfig } from './config.ts'
import type { CrlNumbers, SignedCrls } from './crl-numbers.ts'
import { CrlUploads } from './crl-uploads.ts'
import { findTimes, IssuerRollover, reportTimes } from './issuer-rollover.ts'
import { closeKeys, type Issuer, loadIssuers } from './issuers.ts'
import { KeyLoader } from './keys/load-key.ts'
import type { KeyState } from './keys/signing-key.ts'
import { createHandlers } from './methods/handlers.ts'
import { atKey, dropPrivileges, inspectPlaces, isRoot, openNumbers, openSignedLists } from './privileges.ts'
import { readSharedSecret } from './protocol/handshake.ts'
import type { SignerRecord } from './records/record.ts'
import { openRecordFiles, type RecordFiles } from './records/record-files.ts'
import { RecordedRevocations } from './serial-tables.ts'
import { createCounters, SignedSerials, type SigningService } from './signing.ts'
import { listen, prepareSocket, type SignerServer } from './socket-server.ts'

/** The shortest CRL entry: a serial number of 8 octets, no reason. */
const LEAST_ENTRY_BYTES = 27

/** Time for a signature in a token's library to end, after everything else has stopped. */
const KEY_CLOSE_MS = 5000

/**
 * Implements `--validate-only`: all of a start, but without creating the audit chain and the socket.
 * @returns one line an issuer, and what the start will create
 * @throws Error in plain sentences
 */
export async function checkSetup(config: SignerConfig): Promise<string[]> {
  readSecret(config)
  const keys = new KeyLoader()
  const issuers = await loadIssuers(config.issuers, { keys, onKeyState: () => {} })
  dropPrivileges(config)
  const lines = [...issuers.values()].map(
    ({ id, algorithm, key, notAfter, policy }) =>
      `issuer ${id}: ${algorithm}, ${key.kind} key, valid until ${notAfter.toISOString()}${policy.issuer.maySignCrls ? '' : '; it cannot sign CRLs, because its key usage lacks cRLSign'}`,
  )
  const { errors, warnings } = findTimes([...issuers.values()], new Date())
  try {
    if (errors.length > 0) throw new Error(errors.join('\n'))
    return [...lines, ...warnings.map((warning) => `warning: ${warning}`), ...(await inspectPlaces(config))]
  } finally {
    await closeKeys(issuers)
    await keys.close(KEY_CLOSE_MS)
  }
}

interface DaemonOptions {
  config: SignerConfig
  /** Reads the configuration again, at SIGHUP. */
  reread(): SignerConfig
  version: string
  /** Also stop when standard input ends, because the parent then died. */
  withParent: boolean
}

/** Runs until SIGTERM or SIGINT and resolves after the drain. @throws Error when it cannot start. */
export async function runDaemon(options: DaemonOptions): Promise<void> {
  const output = new LogOutput(0, { resumed: (lost) => log.warn({ lost }, LINES_LOST) })
  const log = createLog(options.config, output)
  ignoreUserSignals(RELOAD_OR_STOP, (sentence) => log.warn(sentence))
  // Before "signer ready": a parent may send its signal right after that line.
  const stop = nextSignal(options.withParent)
  try {
    const daemon = await startDaemon(options, log)
    await daemon.stop(await stop)
  } finally {
    // An open standard input would keep the process alive.
    if (options.withParent) process.stdin.destroy()
    output.end()
  }
}

/** Log lines have the form of the service's (src/ops/logging.ts). */
function createLog({ log: { level } }: SignerConfig, output: LogOutput): Logger {
  const form = {
    name: 'chancery-signer',
    level,
    messageKey: 'message',
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (name: string) => ({ level: name }) },
  }
  return pino(form, output)
}

async function startDaemon(options: DaemonOptions, log: Logger): Promise<Daemon> {
  const { config, withParent } = options
  const secret = readSecret(config)
  const keys = new KeyLoader()
  const issuerOptions = { keys, onKeyState: keyStateLogger(log) }
  const issuers = await loadIssuers(config.issuers, issuerOptions)
  dropPrivileges(config)
  reportTimes([...issuers.values()], new Date(), log)
  // A parent warns of root itself, and its child runs as the same user.
  if (isRoot() && !withParent) log.warn('the signer runs as root; set user and group, or start it as a user of its own')
  // Before the audit chain, so that a failure here cannot touch the chain of a running signer.
  await atKey('socket', () => prepareSocket(config.socket))
  if (!(await atKey('audit.file', () => lockChain(config.audit.file))))
    log.warn('the audit chain cannot be locked, without flock(1) or on this file system; start no second signer on it')
  const crlNumbers = await openNumbers(config)
  const signedCrls = await openSignedLists(config)
  const records = await openRecords(config, log)
  const { chain: audit, lines } = await openAudit(config, log, records)

  const serials = new SignedSerials()
  serials.recall(lines)
  const recorded = new RecordedRevocations(config.limits.crl_bytes / LEAST_ENTRY_BYTES)
  const service: SigningService = { issuers, audit, records, recorded, serials, counters: createCounters() }
  const server = await startServer(options, log, { secret, service, crlNumbers, signedCrls })
  const daemon = new Daemon({
    options,
    log,
    service,
    server,
    keys,
    rollover: new IssuerRollover({ service, issuerOptions, started: config, log }),
  })
  // Last: a SIGHUP that follows this line at once must find its listener.
  announce(log, config, issuers, audit)
  return daemon
}

function openRecords({ audit: { file, records_max_bytes } }: SignerConfig, log: Logger): Promise<RecordFiles> {
  const events = {
    dropped: (stream: string, last: number) =>
      log.warn({ stream, last }, 'the oldest records went, to keep within audit.records_max_bytes'),
    failed: (error: Error) => log.error({ err: error }, 'records could not be compressed; it is tried again'),
  }
  return atKey('audit.file', () => openRecordFiles(file, { maxBytes: records_max_bytes, events }))
}

async function openAudit(
  { audit: { file, max_bytes } }: SignerConfig,
  log: Logger,
  records: RecordFiles,
): Promise<OpenedAudit<SignerRecord>> {
  const opened = await atKey('audit.file', () =>
    openAuditChain({ path: file, maxBytes: max_bytes }, auditEvents(log), records),
  )
  const { keptAside } = opened
  if (keptAside !== undefined) log.warn({ keptAside }, 'the last audit line was torn; it is kept aside')
  return opened
}

interface Served {
  secret: Buffer
  service: SigningService
  crlNumbers: CrlNumbers
  signedCrls: SignedCrls
}

function startServer({ config, version }: DaemonOptions, log: Logger, served: Served): Promise<SignerServer> {
  const { secret, service, crlNumbers, signedCrls } = served
  const { limits } = config
  const uploads = new CrlUploads(limits.crl_bytes, service.recorded)
  return listen({
    socketPath: config.socket,
    secret,
    limits: {
      connections: limits.connections,
      requestsInFlight: limits.requests_in_flight,
      frameBytes: limits.frame_bytes,
      handshakeTimeoutMs: limits.handshake_timeout * 1000,
      gracefulTimeoutMs: limits.graceful_timeout * 1000,
    },
    handlers: createHandlers(
      service,
      version,
      { numbers: crlNumbers, signed: signedCrls, uploads },
      (facts, sentence) => log.warn(facts, sentence),
    ),
    onClosed: (connection) => uploads.forgetUnsigned(connection),
    counters: service.counters,
    log,
  })
}

interface DaemonParts {
  options: DaemonOptions
  log: Logger
  service: SigningService
  server: SignerServer
  keys: KeyLoader
  rollover: IssuerRollover
}

/** A running daemon: reloads at SIGHUP, and stops in order. */
class Daemon {
  readonly #parts: DaemonParts
  readonly #onHangUp: () => void

  constructor(parts: DaemonParts) {
    this.#parts = parts
    this.#onHangUp = () => parts.rollover.apply(parts.options.reread)
    process.on('SIGHUP', this.#onHangUp)
  }

  async stop(reason: string): Promise<void> {
    const { log, service, server, keys, rollover } = this.#parts
    const { audit, records, counters } = service
    process.off('SIGHUP', this.#onHangUp)
    log.info({ reason, inFlight: counters.inFlight }, 'signer stopping')
    await server.drain()
    // After the drain, because a replaced key closes after its last signature.
    await rollover.settled()
    await audit.close()
    await records.close()
    await closeKeys(service.issuers)
    await keys.close(KEY_CLOSE_MS)
    log.info({ signatures: counters.signatures, refusals: counters.refusals }, 'signer stopped')
  }
}

function readSecret({ secret_file: file }: SignerConfig): Buffer {
  try {
    return readSharedSecret(file)
  } catch (cause) {
    throw new Error(`secret_file: ${(cause as Error).message}`, { cause })
  }
}

function auditEvents(log: Logger): AuditEvents {
  return {
    stopped(failure, untilThereIsRoom) {
      const until = untilThereIsRoom ? 'there is room for the audit chain' : 'the signer is started again'
      log.error({ err: failure }, `nothing is signed until ${until}`)
    },
    resumed: () => log.warn('there is room for the audit chain again; signing continues'),
  }
}

function keyStateLogger(log: Logger): (issuer: string, state: KeyState) => void {
  return (issuer, state) => {
    if (state.status === 'ready') log.warn({ issuer }, 'the token is back')
    else log.error({ issuer, reason: state.reason }, state.status === 'away' ? 'the token is away' : 'PIN refused')
  }
}

/** Parents wait for "signer ready" on standard output, so this line ignores `log.level`. */
function announce(
  log: Logger,
  config: SignerConfig,
  issuers: ReadonlyMap<string, Issuer>,
  audit: SigningService['audit'],
): void {
  const facts = {
    socket: config.socket,
    issuers: [...issuers.values()].map(({ id, algorithm, key }) => ({ id, algorithm, key: key.kind })),
    auditSequence: audit.sequence,
  }
  log.child({}, { level: 'info' }).info(facts, 'signer ready')
}

/** A second signal ends the process at once. */
function nextSignal(withParent: boolean): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
    if (!withParent) return
    process.stdin.once('close', () => resolve('standard input ended')).resume()
  })
}
