/** Puts the daemon together from its configuration, runs it until a signal, and takes it apart in order. */

import pino, { type Logger } from 'pino'
import { ignoreUserSignals, RELOAD_OR_STOP } from '../src/shared/lib/user-signals.ts'
import { type AuditChain, openAuditChain } from './audit/chain.ts'
import type { SignerConfig } from './config.ts'
import { createCounters } from './counters.ts'
import { type CrlNumbers, openCrlNumbers } from './crl-numbers.ts'
import { CrlUploads } from './crl-uploads.ts'
import { IssuerRollover } from './issuer-rollover.ts'
import { closeKeys, type Issuer, loadIssuers } from './issuers.ts'
import { KeyLoader } from './keys/load-key.ts'
import type { KeyState } from './keys/signing-key.ts'
import { describeMethod } from './methods/describe.ts'
import { healthMethod } from './methods/health.ts'
import type { MethodHandlers } from './methods/method.ts'
import { signCertificateMethod } from './methods/sign-certificate.ts'
import { crlMethods } from './methods/sign-crl.ts'
import { testSignMethod } from './methods/test-sign.ts'
import { inspectPlaces } from './place-check.ts'
import { dropPrivileges, isRoot } from './privileges.ts'
import { readSharedSecret } from './protocol.ts'
import { listen, prepareSocket } from './server.ts'
import type { SigningService } from './signing.ts'
import { atKey } from './start-failure.ts'

/** How long a signature in a token's library may still take when everything else has ended. */
const KEY_CLOSE_MS = 5000

/**
 * What `--validate-only` does: everything short of making the audit chain and the socket.
 * @returns one line an issuer, and what is still to be made. @throws Error in plain sentences
 */
export async function checkSetup(config: SignerConfig): Promise<string[]> {
  readSecret(config)
  const keys = new KeyLoader()
  const issuers = await loadIssuers(config.issuers, { keys, onKeyState: () => {} })
  dropPrivileges(config)
  const lines = [...issuers.values()].map(
    ({ id, algorithm, key, notAfter }) =>
      `issuer ${id}: ${algorithm}, ${key.kind} key, valid until ${notAfter.toISOString()}`,
  )
  try {
    return [...lines, ...(await inspectPlaces(config))]
  } finally {
    await closeKeys(issuers)
    await keys.close(KEY_CLOSE_MS)
  }
}

/**
 * Runs until SIGTERM or SIGINT and resolves after the drain.
 * @param reread reads the configuration again, at SIGHUP.
 * @param withParent stops too when standard input ends, which it does when the parent that holds its other end dies.
 * @throws Error when it cannot start.
 */
export async function serve(
  config: SignerConfig,
  reread: () => SignerConfig,
  version: string,
  withParent: boolean,
): Promise<void> {
  const log = pino({ name: 'chancery-signer', level: config.log.level })
  ignoreUserSignals(RELOAD_OR_STOP, (sentence) => log.warn(sentence))
  // Before "signer ready" is printed: a parent may send its signal right after that line.
  const stop = nextSignal(withParent)
  try {
    await serveUntil(stop, config, reread, version, withParent, log)
  } finally {
    // An open standard input would keep the process alive.
    if (withParent) process.stdin.destroy()
  }
}

async function serveUntil(
  stop: Promise<string>,
  config: SignerConfig,
  reread: () => SignerConfig,
  version: string,
  withParent: boolean,
  log: Logger,
): Promise<void> {
  const secret = readSecret(config)
  const keys = new KeyLoader()
  const issuerOptions = { keys, onKeyState: keyStateLogger(log) }
  const issuers = await loadIssuers(config.issuers, issuerOptions)
  dropPrivileges(config)
  // A child runs as whoever its parent is, which has its own ways to say so.
  if (isRoot() && !withParent) log.warn('the signer runs as root; set user and group, or start it as a user of its own')
  // Before the audit chain, which is made here when it is missing: a start that fails leaves none behind, and one beside a
  // signer that runs does not touch its file.
  await atKey('socket', () => prepareSocket(config.socket))
  const crlNumbers = await atKey(config.crl_numbers_file === undefined ? 'audit.file' : 'crl_numbers_file', () =>
    openCrlNumbers(config.crl_numbers_file ?? `${config.audit.file}.crl-numbers`),
  )
  const { chain: audit, keptAside } = await atKey('audit.file', () =>
    openAuditChain({ path: config.audit.file, maxBytes: config.audit.max_bytes }, (failure) =>
      log.error({ err: failure }, 'nothing is signed until the signer is started again'),
    ),
  )
  if (keptAside !== undefined) log.warn({ keptAside }, 'the last audit line was torn; it is kept aside')

  const counters = createCounters()
  const service: SigningService = { issuers, audit, counters }
  const server = await listen({
    socketPath: config.socket,
    secret,
    limits: {
      connections: config.limits.connections,
      requestsInFlight: config.limits.requests_in_flight,
      frameBytes: config.limits.frame_bytes,
      handshakeTimeoutMs: config.limits.handshake_timeout * 1000,
      gracefulTimeoutMs: config.limits.graceful_timeout * 1000,
    },
    handlers: createHandlers(service, version, crlNumbers, new CrlUploads(config.limits.crl_bytes)),
    counters,
    log,
  })
  announce(log, config, issuers, audit)
  const rollover = new IssuerRollover(service, issuerOptions, config, log)
  const onHangUp = () => rollover.apply(reread)
  process.on('SIGHUP', onHangUp)

  const reason = await stop
  process.off('SIGHUP', onHangUp)
  log.info({ reason, inFlight: counters.inFlight }, 'signer stopping')
  await server.drain()
  // A key that is replaced is closed when its last signature is made, so not before the drain.
  await rollover.settled()
  await audit.close()
  await closeKeys(service.issuers)
  await keys.close(KEY_CLOSE_MS)
  log.info({ signatures: counters.signatures, refusals: counters.refusals }, 'signer stopped')
}

function readSecret({ secret_file: file }: SignerConfig): Buffer {
  try {
    return readSharedSecret(file)
  } catch (cause) {
    throw new Error(`secret_file: ${(cause as Error).message}`, { cause })
  }
}

function createHandlers(
  service: SigningService,
  version: string,
  crlNumbers: CrlNumbers,
  uploads: CrlUploads,
): MethodHandlers {
  return {
    describe: describeMethod(version, service),
    health: healthMethod(service),
    signCertificate: signCertificateMethod(service),
    testSign: testSignMethod(service),
    ...crlMethods(service, crlNumbers, uploads),
  }
}

function keyStateLogger(log: Logger): (issuer: string, state: KeyState) => void {
  return (issuer, state) => {
    if (state.status === 'ready') log.warn({ issuer }, 'the token is back')
    else log.error({ issuer, reason: state.reason }, state.status === 'away' ? 'the token is away' : 'PIN refused')
  }
}

/** Parents wait for "signer ready" on standard output, so this one line ignores `log.level`. */
function announce(log: Logger, config: SignerConfig, issuers: ReadonlyMap<string, Issuer>, audit: AuditChain): void {
  for (const { id, notAfter } of issuers.values()) {
    if (notAfter.getTime() < Date.now()) log.error({ issuer: id, notAfter }, 'the issuer certificate has expired')
  }
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
