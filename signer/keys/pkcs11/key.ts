/**
 * A private key in a PKCS #11 token: its sessions, and their recovery.
 *
 * A connection is the token, its login and its sessions. A lost session is replaced and the signature repeated; any
 * failure of the token ends the connection. Without a connection, signatures fail at once with the reason. A timer
 * looks for the token until it returns: same label, same key, proven by a signature. After a refused PIN there is no
 * retry before the next start, because each attempt may be the last.
 */

import { createHash } from 'node:crypto'
import { messageOf } from '../../../src/shared/lib/errors.ts'
import {
  parseSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
  type Spki,
  verifySignature,
} from '../../../src/shared/pki/algorithms.ts'
import { TEST_MESSAGE } from '../../protocol/methods.ts'
import { SignerUnavailable } from '../../protocol/signer-errors.ts'
import { type KeyState, poolThreads, type SigningKey, type StreamedSignature } from '../signing-key.ts'
import { anotherPin, type Pkcs11Library, type Token, type TokenPlace } from './library.ts'
import { chooseOperation, type TokenInput, type TokenOperation } from './mechanism.ts'
import { TokenError } from './native.ts'
import type { KeyPlace, Session } from './token-session.ts'

interface TokenKeyOptions {
  library: Pkcs11Library
  token: TokenPlace
  key: KeyPlace
  /** Undefined: no login. */
  pin: string | undefined
  sessions: number
  /** How long a signature may wait for a free session. */
  sessionWaitMs: number
  algorithm: SignatureAlgorithm
  /** DER of the SubjectPublicKeyInfo of the issuer certificate. */
  spki: Buffer
  onStateChange(state: KeyState): void
}

interface Connection {
  token: Token
  free: PooledSession[]
}

interface PooledSession {
  session: Session
  key: ReturnType<Session['findKey']>
}

const FIRST_RETRY_MS = 250
const MAX_RETRY_MS = 5000
/** A restart of the library waits until no call runs in it. Signatures of its other tokens wait at most this long. */
const IDLE_TIMEOUT_MS = 500

/** @throws Error in one sentence: no such token, PIN refused, no such key, not the certificate's key */
export async function openTokenKey(options: TokenKeyOptions): Promise<SigningKey> {
  const key = new TokenKey(options)
  await key.connect()
  return key
}

class TokenKey implements SigningKey {
  readonly kind = 'pkcs11'
  readonly concurrency: number
  readonly maxWaitMs: number
  readonly #options: TokenKeyOptions
  readonly #spki: Spki
  /** Mechanisms of the token at the last connection. */
  #mechanisms: ReadonlySet<string> = new Set()
  #connection: Connection | undefined
  #state: KeyState = { status: 'away', since: new Date(), reason: 'not connected yet' }
  #retry: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: TokenKeyOptions) {
    this.#options = options
    this.#spki = parseSpki(options.spki)
    this.concurrency = Math.min(options.sessions, poolThreads() - 1)
    this.maxWaitMs = options.sessionWaitMs
  }

  get state(): KeyState {
    return this.#state
  }

  /** @throws SignerUnavailable when the token is away or did not sign */
  sign(data: Buffer): Promise<Buffer> {
    const operation = this.#operation(this.#options.algorithm)
    return this.#run(operation, operation.prepare(data))
  }

  begin(algorithm: SignatureAlgorithm): StreamedSignature | undefined {
    if (SIGNATURE_ALGORITHMS[algorithm].keyKind !== this.#spki.kind) return undefined
    const operation = this.#operation(algorithm)
    const { prepareDigest } = operation
    if (!prepareDigest) return undefined
    const hashing = createHash(operation.hash)
    return {
      update: (piece) => void hashing.update(piece),
      finish: () => this.#run(operation, prepareDigest(hashing.digest())),
    }
  }

  ping(): void {
    const connection = this.#connection
    // Without a free session all of them are signing, which shows more than a ping.
    const pooled = connection?.free.pop()
    if (!connection || !pooled) return
    try {
      pooled.session.ping()
      connection.token.ping()
      this.#giveBack(connection, pooled)
    } catch (error) {
      if (!(error instanceof TokenError)) throw error
      this.#afterFailure(connection, pooled, error)
    }
  }

  requirePin(pin: string): void {
    const { token, pin: used } = this.#options
    if (used !== undefined && used !== pin) throw new Error(anotherPin(token.label ?? `in slot ${token.slot}`))
  }

  #operation(algorithm: SignatureAlgorithm): TokenOperation {
    return chooseOperation(algorithm, this.#spki, this.#mechanisms)
  }

  async #run(operation: TokenOperation, input: TokenInput): Promise<Buffer> {
    // Each attempt replaces one lost session. After replacing all, the next attempt has a good session.
    for (let lost = 0; ; lost++) {
      try {
        return operation.finish(await this.#signOnce(input))
      } catch (error) {
        if (!(error instanceof TokenError)) throw error
        if (error.kind === 'session' && lost <= this.concurrency) continue
        throw new SignerUnavailable(error.message, { cause: error })
      }
    }
  }

  async #signOnce({ mechanism, input }: TokenInput): Promise<Buffer> {
    const connection = this.#connection
    const pooled = connection?.free.pop()
    if (!connection) throw new SignerUnavailable(describeAbsence(this.#state))
    // The queue allows `concurrency` calls, so sessions run out only while a token is being lost.
    if (!pooled) throw new SignerUnavailable('no session with the token is free')
    try {
      const signature = await pooled.session.sign(mechanism, pooled.key, input)
      this.#giveBack(connection, pooled)
      return signature
    } catch (error) {
      this.#afterFailure(connection, pooled, error)
      throw error
    }
  }

  #giveBack(connection: Connection, pooled: PooledSession): void {
    if (connection === this.#connection) connection.free.push(pooled)
    else closeQuietly(pooled.session)
  }

  #afterFailure(connection: Connection, pooled: PooledSession, error: unknown): void {
    const kind = error instanceof TokenError ? error.kind : 'request'
    if (kind === 'request' || connection !== this.#connection) this.#giveBack(connection, pooled)
    else if (kind === 'session') this.#replace(connection, pooled)
    else this.#lose(error)
  }

  #replace(connection: Connection, lost: PooledSession): void {
    closeQuietly(lost.session)
    try {
      connection.free.push(openSession(connection.token, this.#options))
    } catch (error) {
      this.#lose(error)
    }
  }

  /** Ends the connection. A session with a running signature closes when that signature returns. */
  #lose(error: unknown): void {
    const lost = this.#connection
    this.#connection = undefined
    for (const { session } of lost?.free ?? []) closeQuietly(session)
    this.#becomeAbsent(error)
    if (this.#state.status === 'away') this.#retryAfter(FIRST_RETRY_MS)
  }

  #becomeAbsent(error: unknown): void {
    const reason = messageOf(error)
    const status = error instanceof TokenError && error.kind === 'pin' ? 'refused' : 'away'
    const since = this.#state.status === 'ready' ? new Date() : this.#state.since
    const changed = this.#state.status !== status || this.#state.reason !== reason
    this.#state = { status, since, reason }
    if (changed) this.#options.onStateChange(this.#state)
  }

  #retryAfter(delayMs: number): void {
    if (this.#closed) return
    this.#retry = setTimeout(() => void this.#reconnect(delayMs), delayMs)
    this.#retry.unref()
  }

  async #reconnect(delayMs: number): Promise<void> {
    try {
      // A library may know only the tokens present at its start.
      if (delayMs > FIRST_RETRY_MS) await this.#options.library.restart(IDLE_TIMEOUT_MS)
      await this.connect()
      this.#options.onStateChange(this.#state)
    } catch (error) {
      this.#becomeAbsent(error)
      if (this.#state.status === 'away') this.#retryAfter(Math.min(delayMs * 2, MAX_RETRY_MS))
    }
  }

  /** Opens all sessions, or none. @throws Error */
  async connect(): Promise<void> {
    const { library, sessions } = this.#options
    const token = library.findToken(this.#options.token)
    const free: PooledSession[] = []
    try {
      free.push(openSession(token, this.#options))
      requireKind(free[0]!, this.#spki.kind)
      this.#mechanisms = token.mechanisms()
      await this.#requireMatch(free[0]!)
      while (free.length < sessions) free.push(openSession(token, this.#options))
      this.#connection = { token, free }
      this.#state = { status: 'ready', since: new Date() }
    } catch (error) {
      for (const { session } of free) closeQuietly(session)
      throw error
    }
  }

  async #requireMatch({ session, key }: PooledSession): Promise<void> {
    const { algorithm } = this.#options
    const operation = this.#operation(algorithm)
    const { mechanism, input } = operation.prepare(TEST_MESSAGE)
    const signature = operation.finish(await session.sign(mechanism, key, input))
    if (verifySignature(algorithm, TEST_MESSAGE, this.#spki, signature)) return
    throw new TokenError('the key in the token is not the key of the issuer certificate', 'request')
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    const { free } = this.#connection ?? { free: [] }
    this.#connection = undefined
    for (const { session } of free) closeQuietly(session)
  }
}

/** The first session logs in the process. For later sessions the token answers that it is logged in already. */
function openSession(token: Token, { key, pin }: TokenKeyOptions): PooledSession {
  const session = token.openSession('read')
  try {
    token.login(session, pin)
    return { session, key: session.findKey(key) }
  } catch (error) {
    closeQuietly(session)
    throw error
  }
}

function requireKind({ session, key }: PooledSession, kind: string): void {
  const found = session.facts(key)
  if (found.kind === kind) return
  throw new TokenError(
    `the key in the token is of kind ${found.kind}, the key of the issuer certificate of kind ${kind}`,
    'request',
  )
}

/** Ignores the error of the token, which a lost session causes. */
function closeQuietly(session: Session): void {
  try {
    session.close()
  } catch (error) {
    if (!(error instanceof TokenError)) throw error
  }
}

function describeAbsence(state: KeyState): string {
  return state.status === 'refused'
    ? `${state.reason}; the signer has to be started again with the right PIN`
    : `the token is away: ${state.status === 'away' ? state.reason : 'it is being left'}`
}
