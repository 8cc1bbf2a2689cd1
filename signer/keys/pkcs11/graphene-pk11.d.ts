/**
 * Declares the part of graphene-pk11 that this folder uses. npm leaves out this optional package
 * where its native part cannot be built, and the program must still compile.
 */

declare module 'graphene-pk11' {
  /** Names and numbers of PKCS#11 (`ECDSA`, `SHA256_RSA_PKCS`), or an object handle in native byte order. */
  type Handle = Buffer

  interface Template {
    class?: number
    keyType?: number
    label?: string
    id?: Buffer
    token?: boolean
    private?: boolean
    sensitive?: boolean
    extractable?: boolean
    sign?: boolean
    verify?: boolean
    modulusBits?: number
    publicExponent?: Buffer
    paramsEC?: Buffer
  }

  interface NativeLibrary {
    C_GetSessionInfo(session: Handle): object
    C_InitToken(slot: Handle, soPin: string, label: string): void
    /** Reads `data` and writes `signature` in a thread of the pool; keeps neither alive. */
    C_Sign(
      session: Handle,
      data: Buffer,
      signature: Buffer,
      done: (error: Error | null, signature: Buffer) => void,
    ): void
  }

  class SessionObject {
    readonly handle: Handle
    getAttribute(name: 'label'): string
    getAttribute(name: 'id' | 'modulus' | 'publicExponent' | 'pointEC' | 'paramsEC'): Buffer
    getAttribute(name: 'keyType'): number
    getAttribute(name: 'alwaysAuth' | 'sensitive' | 'extractable'): boolean
    destroy(): void
  }

  interface Collection<T> {
    readonly length: number
    items(index: number): T
  }

  class Session {
    readonly handle: Handle
    readonly lib: NativeLibrary
    login(pin: string, user?: number): void
    logout(): void
    initPin(pin: string): void
    close(): void
    find(template: Template): Collection<SessionObject>
    /** The constructor calls C_SignInit, in place. */
    createSign(mechanism: string, key: SessionObject): object
    generateKeyPair(
      mechanism: number,
      publicTemplate: Template,
      privateTemplate: Template,
      done: (error: Error | null, keys: { publicKey: SessionObject; privateKey: SessionObject } | null) => void,
    ): void
  }

  interface Token {
    readonly label: string
    readonly flags: number
    readonly model: string
    readonly manufacturerID: string
    readonly serialNumber: string
  }

  interface Slot {
    /** The slot's number. */
    readonly handle: Handle
    getToken(): Token
    getMechanisms(): Collection<{ readonly name: string }> & {
      tryGetItem(index: number): { readonly name: string } | null
    }
    readonly lib: NativeLibrary
    open(flags?: number): Session
  }

  class Module {
    static load(file: string): Module
    initialize(options: { flags: number }): void
    finalize(): void
    getSlots(tokenPresent: boolean): Collection<Slot>
    readonly libraryDescription: string
    readonly libraryVersion: { major: number; minor: number }
  }

  const graphene: {
    Module: typeof Module
    ObjectClass: { PRIVATE_KEY: number; PUBLIC_KEY: number }
    KeyType: { RSA: number; EC: number }
    KeyGenMechanism: { RSA: number; EC: number }
    UserType: { SO: number }
    SessionFlag: { RW_SESSION: number; SERIAL_SESSION: number }
    TokenFlag: {
      LOGIN_REQUIRED: number
      TOKEN_INITIALIZED: number
      USER_PIN_INITIALIZED: number
      USER_PIN_FINAL_TRY: number
      USER_PIN_LOCKED: number
    }
  }
  export default graphene
}
