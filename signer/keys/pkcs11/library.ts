/** Loads and restarts a PKCS #11 library, finds tokens in its slots, and opens their sessions, which share a login. */

import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import {
  call,
  type Graphene,
  importGraphene,
  type NativeModule,
  type NativeSlot,
  TokenError,
  toTokenError,
} from './native.ts'
import { CallGate, Session } from './token-session.ts'

/** Without it, concurrent calls crash some libraries. */
const CKF_OS_LOCKING_OK = 2

/** Which token: by label, by slot number, or both. */
export interface TokenPlace {
  label?: string | undefined
  slot?: number | undefined
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
    throw withHint(toTokenError(error, `PKCS#11 library ${file} cannot be loaded`), file)
  }
}

/** SoftHSM has one code for a configuration and for a folder that cannot be read, the usual reasons for a failed start. */
function withHint(refusal: TokenError, file: string): TokenError {
  if (refusal.code !== 'CKR_GENERAL_ERROR' || !path.basename(file).includes('softhsm')) return refusal
  const message = `${refusal.message}; ${softHsmHint(process.env['SOFTHSM2_CONF'])}`
  return new TokenError(message, refusal.kind, { code: refusal.code, cause: refusal.cause })
}

function softHsmHint(configuration: string | undefined): string {
  if (!configuration) return 'set SOFTHSM2_CONF to the configuration file of SoftHSM, in the environment of the signer'
  let place = `the file ${configuration}, which SOFTHSM2_CONF names,`
  try {
    const folder = /^\s*directories\.tokendir\s*=\s*(.*?)\s*$/m.exec(readFileSync(configuration, 'utf8'))?.[1]
    if (folder) place = `the folder ${folder} (directories.tokendir in ${configuration}, which SOFTHSM2_CONF names)`
    if (folder) readdirSync(folder)
    return `${place} can be read`
  } catch (error) {
    return `${place} cannot be read (${(error as NodeJS.ErrnoException).code})`
  }
}

export class Pkcs11Library {
  readonly #api: Graphene
  readonly #module: NativeModule
  readonly file: string
  readonly #gate = new CallGate()
  readonly #pins = new Map<number, string>()

  constructor(api: Graphene, module: NativeModule, file: string) {
    this.#api = api
    this.#module = module
    this.file = file
    // graphene treats CKR_CRYPTOKI_ALREADY_INITIALIZED as success.
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
    return Array.from(
      { length: slots.length },
      (_, index) => new Token(this.#gate, this.#api, slots.items(index), this.#pins),
    ).filter(({ isInitialized }) => isInitialized)
  }

  /**
   * Initializes the first uninitialized token, and sets its user PIN.
   * @throws TokenError when every token of the library is in use
   */
  initializeToken(label: string, soPin: string, pin: string): void {
    call('initializing a token', () => {
      const slots = this.#module.getSlots(true)
      const all = Array.from({ length: slots.length }, (_, index) => slots.items(index))
      const { TOKEN_INITIALIZED } = this.#api.TokenFlag
      const slot = all.find((candidate) => (candidate.getToken().flags & TOKEN_INITIALIZED) === 0)
      if (!slot) throw new TokenError('there is no token that is not initialized yet', 'request')
      // graphene's own initToken fails on the return value of this call.
      slot.lib.C_InitToken(slot.handle, soPin, label)
      const { SERIAL_SESSION, RW_SESSION } = this.#api.SessionFlag
      const session = slot.open(SERIAL_SESSION | RW_SESSION)
      session.login(soPin, this.#api.UserType.SO)
      session.initPin(pin)
      session.logout()
      session.close()
    })
  }

  /**
   * Calls C_Finalize and C_Initialize, because many libraries look for tokens only then. It ends
   * all sessions and logins of the process; other keys reopen theirs at their next signature.
   * @returns false when a call still runs after `timeoutMs`, so nothing was done
   */
  restart(timeoutMs: number): Promise<boolean> {
    return this.#gate.alone(timeoutMs, () => {
      this.#finalize()
      try {
        this.#module.initialize({ flags: CKF_OS_LOCKING_OK })
      } catch (error) {
        throw withHint(toTokenError(error, 'starting the library'), this.file)
      }
    })
  }

  /** Calls C_Finalize at the end of the process, unless a call hangs in the library. */
  async close(timeoutMs: number): Promise<void> {
    // `alone` would share a restart under way, which leaves the library running.
    await this.#gate.settled()
    await this.#gate.alone(timeoutMs, () => this.#finalize())
  }

  /** Ignores CKR_CRYPTOKI_NOT_INITIALIZED: after a failed restart the library has ended already. */
  #finalize(): void {
    try {
      call('ending the library', () => this.#module.finalize())
    } catch (error) {
      if (!(error instanceof TokenError && error.code === 'CKR_CRYPTOKI_NOT_INITIALIZED')) throw error
    }
  }
}

/** A token as found at connection time. A session keeps it. */
export class Token {
  readonly #gate: CallGate
  readonly #api: Graphene
  readonly #slot: NativeSlot
  readonly #flags: number
  /** By slot: the PIN of the last login, at which the token looked. */
  readonly #pins: Map<number, string>
  readonly slotId: number
  readonly label: string
  readonly model: string
  readonly serialNumber: string

  constructor(gate: CallGate, api: Graphene, slot: NativeSlot, pins: Map<number, string>) {
    const token = slot.getToken()
    this.#gate = gate
    this.#api = api
    this.#slot = slot
    this.#flags = token.flags
    this.#pins = pins
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

  /** Some sessions answer though their token has gone. @throws TokenError */
  ping(): void {
    call('asking the token', () => this.#slot.getToken())
  }

  /** @returns names without `CKM_`; vendor mechanisms without a name are left out */
  mechanisms(): Set<string> {
    return call('listing mechanisms', () => {
      const list = this.#slot.getMechanisms()
      const names = Array.from({ length: list.length }, (_, index) => list.tryGetItem(index)?.name)
      return new Set(names.filter((name) => name !== undefined))
    })
  }

  /** @throws TokenError, also when the token has no free session */
  openSession(mode: 'read' | 'write'): Session {
    const { SERIAL_SESSION, RW_SESSION } = this.#api.SessionFlag
    const flags = mode === 'read' ? SERIAL_SESSION : SERIAL_SESSION | RW_SESSION
    const session = call('opening a session', () => this.#slot.open(flags))
    return new Session(this.#gate, this.#api, session)
  }

  /**
   * Logs in the process, for all its sessions. A token with one attempt left is not tried: a
   * process that restarts repeatedly must not lock it.
   * @throws TokenError of kind `pin` when the PIN is wrong, or must not or cannot be tried
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
    if (session.login(pin)) this.#pins.set(this.slotId, pin)
    // PKCS #11 v2.40 base §5.6: one login for all sessions of a process. A second process would spend an attempt.
    else if ((this.#pins.get(this.slotId) ?? pin) !== pin) throw new TokenError(anotherPin(this.label), 'pin')
  }
}

export const anotherPin = (token: string): string =>
  `token ${token} is in use with another PIN, and looks at no second one in this process (CKR_USER_ALREADY_LOGGED_IN); ` +
  'all its keys need the same PIN. chancery-signer --validate-only tries a new one, and a restart takes it'
