/** A token: its facts, its sessions and their shared login. */

import type { CallGate } from './call-gate.ts'
import { TokenError } from './error.ts'
import { call, type Graphene, type NativeSlot } from './native.ts'
import { Session } from './token-session.ts'

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
