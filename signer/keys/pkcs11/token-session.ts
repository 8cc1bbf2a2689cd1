/**
 * One session with a token: finds keys, signs, makes keys. A gate separates C_Finalize from all other calls: signatures run
 * in parallel, and a restart of the library runs alone.
 *
 * C_Sign runs in a thread of libuv's pool, all other calls in place. The native part keeps the two
 * Buffers of C_Sign alive only during the starting call. So `sign` holds them until the callback.
 */

import { IdleSignal } from '../../../src/shared/lib/time-limit.ts'
import { encodeDer } from '../../../src/shared/pki/der-writer.ts'
import { call, type Graphene, type NativeKey, type NativeSession, TokenError, toTokenError } from './native.ts'

export class CallGate {
  #running = 0
  #exclusive: Promise<boolean> | undefined
  readonly #idle = new IdleSignal()
  /** Counts restarts. A handle of an earlier generation is invalid, or names another object now. */
  generation = 0

  /** Runs beside other calls, but not during a restart. */
  async running<T>(task: () => Promise<T>): Promise<T> {
    while (this.#exclusive) await this.settled()
    this.#running += 1
    try {
      return await task()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#idle.notify()
    }
  }

  /** Resolves when the restart under way has ended or failed. */
  async settled(): Promise<void> {
    // The caller of alone() gets the error.
    await this.#exclusive?.catch(() => undefined)
  }

  /**
   * Runs `task` while no call runs; new calls wait. A second caller shares the restart and its result.
   * @returns false when a call still runs after `timeoutMs`, so `task` did not run
   * @throws the error of `task`
   */
  alone(timeoutMs: number, task: () => void): Promise<boolean> {
    this.#exclusive ??= this.#whenIdle(timeoutMs, task).finally(() => {
      this.#exclusive = undefined
    })
    return this.#exclusive
  }

  async #whenIdle(timeoutMs: number, task: () => void): Promise<boolean> {
    if (this.#running > 0 && !(await this.#idle.wait(timeoutMs))) return false
    this.generation += 1
    task()
    return true
  }
}

/** An RSA key of 16384 bits makes signatures of 2048 bytes. */
const MAX_SIGNATURE_BYTES = 2048

/** Selects a key by CKA_LABEL, by CKA_ID (hexadecimal), or both. */
export interface KeyPlace {
  label?: string | undefined
  id?: string | undefined
}

export type NewTokenKey = { kind: 'rsa'; bits: number } | { kind: 'ec'; curveOid: string }

/** `point` is the raw CKA_EC_POINT of the token. */
type TokenPublicKey = { kind: 'rsa'; modulus: Buffer; exponent: Buffer } | { kind: 'ec'; point: Buffer }

interface GeneratedKey {
  key: NativeKey
  publicKey: TokenPublicKey
  isSensitive: boolean
  isExtractable: boolean
}

interface TokenKeyFacts {
  label: string
  /** Lower-case hexadecimal. */
  id: string
  kind: 'rsa' | 'ec' | 'other'
}

/** The caller must run one operation at a time. */
export class Session {
  readonly #gate: CallGate
  readonly #api: Graphene
  readonly #session: NativeSession
  readonly #generation: number

  constructor(gate: CallGate, api: Graphene, session: NativeSession) {
    this.#gate = gate
    this.#api = api
    this.#session = session
    this.#generation = gate.generation
  }

  /** @returns false when the process was logged in already, so that the token did not look at the PIN */
  login(pin: string): boolean {
    try {
      this.#session.login(pin)
      return true
    } catch (error) {
      const refused = toTokenError(error, 'logging in')
      if (refused.code !== 'CKR_USER_ALREADY_LOGGED_IN') throw refused
      return false
    }
  }

  /** @throws TokenError of kind `request` when no private key matches, or several; it lists the keys */
  findKey(place: KeyPlace): NativeKey {
    const found = this.#privateKeys(place)
    if (found.length === 1) return found[0]!
    const wanted = [place.label !== undefined && `label ${place.label}`, place.id !== undefined && `id ${place.id}`]
    const name = wanted.filter(Boolean).join(' and ')
    const list = (keys: NativeKey[]) =>
      keys
        .slice(0, 10)
        .map((key) => this.facts(key))
        .map(({ label, id }) => `${label || '(no label)'} (id ${id || 'none'})`)
        .join(', ') || 'none'
    if (found.length > 1) {
      throw new TokenError(`${found.length} private keys have ${name}: ${list(found)}; give label and id`, 'request')
    }
    const visible = list(this.#privateKeys({}))
    throw new TokenError(`there is no private key with ${name}; the token shows: ${visible}`, 'request')
  }

  #privateKeys({ label, id }: KeyPlace): NativeKey[] {
    return call('looking for the key', () => {
      const found = this.#session.find({
        class: this.#api.ObjectClass.PRIVATE_KEY,
        ...(label !== undefined && { label }),
        ...(id !== undefined && { id: Buffer.from(id, 'hex') }),
      })
      return Array.from({ length: found.length }, (_, index) => found.items(index))
    })
  }

  facts(key: NativeKey): TokenKeyFacts {
    return call('reading a key', () => {
      const type = key.getAttribute('keyType')
      const { RSA, EC } = this.#api.KeyType
      return {
        label: key.getAttribute('label'),
        id: key.getAttribute('id').toString('hex'),
        kind: type === RSA ? 'rsa' : type === EC ? 'ec' : 'other',
      }
    })
  }

  /** @throws TokenError when the session or its token is gone */
  ping(): void {
    call('asking the session', () => this.#session.lib.C_GetSessionInfo(this.#session.handle))
  }

  /** @param mechanism name without `CKM_`. @throws TokenError */
  async sign(mechanism: string, key: NativeKey, input: Buffer): Promise<Buffer> {
    const data = pinned(input.length)
    input.copy(data)
    const output = pinned(MAX_SIGNATURE_BYTES)
    // A reference until `finally` keeps the memory alive.
    const held: ArrayBuffer[] = [data.buffer, output.buffer]
    try {
      return await this.#gate.running(() => {
        this.#session.createSign(mechanism, key)
        return new Promise((resolve, reject) => {
          this.#session.lib.C_Sign(this.#session.handle, data, output, (error, signature) =>
            error ? reject(error) : resolve(signature),
          )
        })
      })
    } catch (error) {
      throw toTokenError(error, 'signing')
    } finally {
      held.length = 0
    }
  }

  /** @throws TokenError when a private key has this label or id already */
  requireFree(place: KeyPlace): void {
    const [taken] = this.#privateKeys(place)
    if (!taken) return
    const { label, id } = this.facts(taken)
    throw new TokenError(
      `the token has a private key ${label} (id ${id}) already; choose another label and id`,
      'request',
    )
  }

  /**
   * Makes a key pair in the token, in a thread of the pool.
   * @param id hexadecimal
   * @throws TokenError
   */
  async generate(wanted: NewTokenKey, { label, id }: { label: string; id: string }): Promise<GeneratedKey> {
    const common = { label, id: Buffer.from(id, 'hex'), token: true }
    const { KeyType, KeyGenMechanism } = this.#api
    const shape =
      wanted.kind === 'rsa'
        ? { keyType: KeyType.RSA, modulusBits: wanted.bits, publicExponent: RSA_EXPONENT }
        : { keyType: KeyType.EC, paramsEC: encodeDer((writer) => writer.oid(wanted.curveOid)) }
    const publicTemplate = { ...common, ...shape, private: false, verify: true }
    const privateTemplate = {
      ...common,
      keyType: shape.keyType,
      private: true,
      sensitive: true,
      extractable: false,
      sign: true,
    }
    const mechanism = wanted.kind === 'rsa' ? KeyGenMechanism.RSA : KeyGenMechanism.EC
    const keys = await new Promise<{ publicKey: NativeKey; privateKey: NativeKey }>((resolve, reject) => {
      this.#session.generateKeyPair(mechanism, publicTemplate, privateTemplate, (error, made) =>
        made ? resolve(made) : reject(toTokenError(error, 'making the key')),
      )
    })
    return call('reading the new key', () => ({
      key: keys.privateKey,
      publicKey: readPublicKey(keys.publicKey, wanted.kind),
      isSensitive: keys.privateKey.getAttribute('sensitive'),
      isExtractable: keys.privateKey.getAttribute('extractable'),
    }))
  }

  close(): void {
    if (this.#generation !== this.#gate.generation) return
    call('closing a session', () => this.#session.close())
  }
}

const RSA_EXPONENT = Buffer.of(1, 0, 1)

function readPublicKey(key: NativeKey, kind: 'rsa' | 'ec'): TokenPublicKey {
  return kind === 'rsa'
    ? { kind, modulus: key.getAttribute('modulus'), exponent: key.getAttribute('publicExponent') }
    : { kind, point: key.getAttribute('pointEC') }
}

/** A Buffer with its own memory: Node shares the memory of its pool among Buffers. */
function pinned(bytes: number): Buffer<ArrayBuffer> {
  return Buffer.from(new ArrayBuffer(bytes))
}
