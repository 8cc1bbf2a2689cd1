/**
 * A PKCS #11 library in this process, through graphene-pk11: the only file that knows the package, and the place where the
 * rules of the native half are kept.
 *
 * - C_Initialize with CKF_OS_LOCKING_OK: without it, concurrent calls crash some libraries.
 * - C_Sign runs in a thread of libuv's pool, everything else in place. The native half keeps the two Buffers of C_Sign
 *   alive no longer than the call that starts it, so they are held here until its callback.
 * - C_Finalize never runs beside another call: `restart` waits until no signature is under way.
 */

import type graphene from 'graphene-pk11'
import { encodeDer } from '../../../src/pki/der-writer.ts'
import { TokenError, toTokenError } from './error.ts'

type Graphene = typeof graphene
type NativeSession = ReturnType<NativeSlot['open']>
type NativeSlot = ReturnType<ReturnType<NativeModule['getSlots']>['items']>
type NativeModule = ReturnType<Graphene['Module']['load']>
type NativeKey = ReturnType<ReturnType<NativeSession['find']>['items']>

const CKF_OS_LOCKING_OK = 2
/** An RSA key of 16384 bits makes signatures of 2048 bytes. */
const MAX_SIGNATURE_BYTES = 2048

/** Which token: by label, by slot number, or both. */
export interface TokenPlace {
  label?: string | undefined
  slot?: number | undefined
}

/** Which key in it: by CKA_LABEL, by CKA_ID (hexadecimal), or both. */
export interface KeyPlace {
  label?: string | undefined
  id?: string | undefined
}

export type NewTokenKey = { kind: 'rsa'; bits: number } | { kind: 'ec'; curveOid: string }

/** `point` is CKA_EC_POINT as the token gives it. */
export type TokenPublicKey = { kind: 'rsa'; modulus: Buffer; exponent: Buffer } | { kind: 'ec'; point: Buffer }

export interface GeneratedKey {
  key: NativeKey
  publicKey: TokenPublicKey
  isSensitive: boolean
  isExtractable: boolean
}

export interface TokenKeyFacts {
  label: string
  /** Lower-case hexadecimal. */
  id: string
  kind: 'rsa' | 'ec' | 'other'
}

/**
 * Loads the native half and the library.
 * @throws TokenError in one sentence when either is missing
 */
export async function loadLibrary(file: string): Promise<Pkcs11Library> {
  const api = await importGraphene()
  try {
    return new Pkcs11Library(api, api.Module.load(file), file)
  } catch (error) {
    throw toTokenError(error, `PKCS#11 library ${file} cannot be loaded`)
  }
}

async function importGraphene(): Promise<Graphene> {
  try {
    return (await import('graphene-pk11')).default
  } catch (cause) {
    const reason =
      (cause as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND'
        ? 'it is not installed, or its native part could not be compiled here'
        : String((cause as Error).message).split('\n')[0]
    throw new TokenError(
      `keys in a token need the package graphene-pk11: ${reason}; with a C++ compiler, make and python3 run: npm ci`,
      'request',
      { cause },
    )
  }
}

export class Pkcs11Library {
  readonly #api: Graphene
  readonly #module: NativeModule
  readonly file: string
  #running = 0
  #restarting: Promise<void> | undefined
  #idle: (() => void) | undefined
  /** Counts restarts: handles of an earlier generation mean nothing, or something else, to this one. */
  generation = 0

  constructor(api: Graphene, module: NativeModule, file: string) {
    this.#api = api
    this.#module = module
    this.file = file
    // graphene takes CKR_CRYPTOKI_ALREADY_INITIALIZED as success.
    module.initialize({ flags: CKF_OS_LOCKING_OK })
  }

  describe(): string {
    const { libraryDescription, libraryVersion } = this.#module
    return `${libraryDescription.trim()} ${libraryVersion.major}.${libraryVersion.minor}`
  }

  /** @throws TokenError when there is no such token, or more than one */
  findToken({ label, slot }: TokenPlace): Token {
    const wanted = [label && `label ${label}`, slot !== undefined && `slot ${slot}`].filter(Boolean).join(' and ')
    const tokens = call('listing tokens', () => this.#tokens())
    const found = tokens.filter(
      (token) => (label === undefined || token.label === label) && (slot === undefined || token.slotId === slot),
    )
    if (found.length === 1) return found[0]!
    if (found.length > 1) {
      const slots = found.map(({ slotId }) => slotId).join(', ')
      throw new TokenError(`${found.length} tokens have the ${wanted} (slots ${slots}); give the slot too`, 'request')
    }
    const present = tokens.map((token) => `${token.label} (slot ${token.slotId})`).join(', ') || 'none'
    throw new TokenError(`there is no token with ${wanted}; present: ${present}`, 'token')
  }

  #tokens(): Token[] {
    const slots = this.#module.getSlots(true)
    return Array.from({ length: slots.length }, (_, index) => new Token(this, this.#api, slots.items(index))).filter(
      ({ isInitialized }) => isInitialized,
    )
  }

  /**
   * Initializes the first token that is not yet, and sets its user PIN.
   * @throws TokenError when every token of the library is in use
   */
  initializeToken(label: string, soPin: string, pin: string): void {
    call('initializing a token', () => {
      const slots = this.#module.getSlots(true)
      const all = Array.from({ length: slots.length }, (_, index) => slots.items(index))
      const { TOKEN_INITIALIZED } = this.#api.TokenFlag
      const slot = all.find((candidate) => (candidate.getToken().flags & TOKEN_INITIALIZED) === 0)
      if (!slot) throw new TokenError('there is no token that is not initialized yet', 'request')
      // graphene's own initToken falls over what this call gives back.
      slot.lib.C_InitToken(slot.handle, soPin, label)
      const { SERIAL_SESSION, RW_SESSION } = this.#api.SessionFlag
      const session = slot.open(SERIAL_SESSION | RW_SESSION)
      session.login(soPin, this.#api.UserType.SO)
      session.initPin(pin)
      session.logout()
      session.close()
    })
  }

  /** Every signature passes here, so that `restart` knows when none is under way. */
  async running<T>(task: () => Promise<T>): Promise<T> {
    while (this.#restarting) await this.#restarting
    this.#running += 1
    try {
      return await task()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#idle?.()
    }
  }

  /**
   * C_Finalize and C_Initialize: many libraries look for tokens only then. Ends every session and login of the process;
   * other keys find theirs lost at their next signature and open new ones. New signatures wait meanwhile.
   * @returns whether it was done; not when a call is still under way after `timeoutMs`
   */
  async restart(timeoutMs: number): Promise<boolean> {
    if (this.#restarting) {
      await this.#restarting
      return true
    }
    let done = () => {}
    this.#restarting = new Promise((resolve) => {
      done = resolve
    })
    try {
      if (!(await this.#untilIdle(timeoutMs))) return false
      call('ending the library', () => this.#module.finalize())
      this.generation += 1
      call('starting the library', () => this.#module.initialize({ flags: CKF_OS_LOCKING_OK }))
      return true
    } finally {
      this.#restarting = undefined
      done()
    }
  }

  /** C_Finalize at the end of the process; left out while a call hangs in the library. */
  async close(timeoutMs: number): Promise<void> {
    if (await this.#untilIdle(timeoutMs)) call('ending the library', () => this.#module.finalize())
  }

  #untilIdle(timeoutMs: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true)
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs)
      this.#idle = () => {
        clearTimeout(timer)
        this.#idle = undefined
        resolve(true)
      }
    })
  }
}

/** A token as it was found; a session keeps it. */
export class Token {
  readonly #library: Pkcs11Library
  readonly #api: Graphene
  readonly #slot: NativeSlot
  readonly #flags: number
  readonly slotId: number
  readonly label: string
  readonly model: string
  readonly serialNumber: string

  constructor(library: Pkcs11Library, api: Graphene, slot: NativeSlot) {
    const token = slot.getToken()
    this.#library = library
    this.#api = api
    this.#slot = slot
    this.#flags = token.flags
    this.slotId = Number(slot.handle.readBigUInt64LE())
    this.label = token.label.trim()
    this.model = `${token.manufacturerID.trim()} ${token.model.trim()}`
    this.serialNumber = token.serialNumber.trim()
  }

  #has(flag: keyof Graphene['TokenFlag']): boolean {
    return (this.#flags & this.#api.TokenFlag[flag]) !== 0
  }

  get isInitialized(): boolean {
    return this.#has('TOKEN_INITIALIZED')
  }

  /** @returns names without `CKM_`; those that have none in the standard are left out */
  mechanisms(): Set<string> {
    return call('listing mechanisms', () => {
      const list = this.#slot.getMechanisms()
      const names = Array.from({ length: list.length }, (_, index) => list.tryGetItem(index)?.name)
      return new Set(names.filter((name) => name !== undefined))
    })
  }

  /** @throws TokenError also when the token has no session left */
  openSession(mode: 'read' | 'write'): Session {
    const { SERIAL_SESSION, RW_SESSION } = this.#api.SessionFlag
    const flags = mode === 'read' ? SERIAL_SESSION : SERIAL_SESSION | RW_SESSION
    const session = call('opening a session', () => this.#slot.open(flags))
    return new Session(this.#library, this.#api, session)
  }

  /**
   * Logs in the process, which all its sessions share. A token that says that one more wrong PIN will lock it is not
   * tried: a process that is started again and again must not lock it.
   * @throws TokenError of kind `pin` when the PIN is wrong or must not be tried
   */
  login(session: Session, pin: string | undefined): void {
    if (!this.#has('LOGIN_REQUIRED')) return
    if (pin === undefined) return
    if (this.#has('USER_PIN_LOCKED')) throw new TokenError(`the PIN of token ${this.label} is locked`, 'pin')
    if (this.#has('USER_PIN_FINAL_TRY')) {
      throw new TokenError(
        `token ${this.label} has one attempt left before its PIN locks; log in once with the vendor's tool first`,
        'pin',
      )
    }
    if (!this.#has('USER_PIN_INITIALIZED')) throw new TokenError(`token ${this.label} has no user PIN yet`, 'pin')
    session.login(pin)
  }
}

/** One operation at a time: the caller's business. */
export class Session {
  readonly #library: Pkcs11Library
  readonly #api: Graphene
  readonly #session: NativeSession
  readonly #generation: number

  constructor(library: Pkcs11Library, api: Graphene, session: NativeSession) {
    this.#library = library
    this.#api = api
    this.#session = session
    this.#generation = library.generation
  }

  login(pin: string): void {
    try {
      this.#session.login(pin)
    } catch (error) {
      const refused = toTokenError(error, 'logging in')
      if (refused.code !== 'CKR_USER_ALREADY_LOGGED_IN') throw refused
    }
  }

  /** @throws TokenError of kind `request` when there is no such private key, or more than one; it lists what there is */
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

  /** @param mechanism name without `CKM_`. @throws TokenError */
  async sign(mechanism: string, key: NativeKey, input: Buffer): Promise<Buffer> {
    const data = pinned(input.length)
    input.copy(data)
    const output = pinned(MAX_SIGNATURE_BYTES)
    // Used again below, so that the memory lives until then.
    const held: ArrayBuffer[] = [data.buffer, output.buffer]
    try {
      return await this.#library.running(() => {
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

  /** Makes a key pair in the token, in a thread of the pool. @param id hexadecimal. @throws TokenError */
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
    if (this.#generation !== this.#library.generation) return
    call('closing a session', () => this.#session.close())
  }
}

const RSA_EXPONENT = Buffer.of(1, 0, 1)

function readPublicKey(key: NativeKey, kind: 'rsa' | 'ec'): TokenPublicKey {
  return kind === 'rsa'
    ? { kind, modulus: key.getAttribute('modulus'), exponent: key.getAttribute('publicExponent') }
    : { kind, point: key.getAttribute('pointEC') }
}

/** A Buffer with memory of its own: one from Node's pool shares it with others, and the pool may move on. */
function pinned(bytes: number): Buffer<ArrayBuffer> {
  return Buffer.from(new ArrayBuffer(bytes))
}

function call<T>(doing: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw toTokenError(error, doing)
  }
}
