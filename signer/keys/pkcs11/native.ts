/**
 * Loads graphene-pk11 when a key is in a token, and knows what its errors mean for the signer (PKCS #11 v2.40 base, §5.1).
 * Only this file knows the package.
 */

import type graphene from 'graphene-pk11'
import { messageOf } from '../../../src/shared/lib/errors.ts'
import { PIN_REFUSED_EXIT_CODE } from '../../protocol/signer-errors.ts'

export type Graphene = typeof graphene
export type NativeModule = ReturnType<Graphene['Module']['load']>
export type NativeSlot = ReturnType<ReturnType<NativeModule['getSlots']>['items']>
export type NativeSession = ReturnType<NativeSlot['open']>
export type NativeKey = ReturnType<ReturnType<NativeSession['find']>['items']>

/** @throws TokenError in one sentence when the package or its native part is missing */
export async function importGraphene(): Promise<Graphene> {
  try {
    return (await import('graphene-pk11')).default
  } catch (cause) {
    const { says, mend } = whyMissing(cause as NodeJS.ErrnoException)
    throw new TokenError(`${says}; ${mend}`, 'request', { cause })
  }
}

/** The reason why keys in tokens cannot be used, and how to mend it. */
interface MissingModule {
  says: string
  mend: string
}

/** @returns undefined where nothing is missing */
export function missingModule(): Promise<MissingModule | undefined> {
  return import('graphene-pk11').then(() => undefined, whyMissing)
}

/** `npm start` installs the package without its native half, and npm leaves it out where the compiler failed. */
function whyMissing({ code, message }: NodeJS.ErrnoException): MissingModule {
  const because = (reason: string, command: string) => ({
    says: `keys in a token need the package graphene-pk11: ${reason}`,
    mend: `with a C++ compiler, make and python3 run: ${command}`,
  })
  if (code === 'ERR_MODULE_NOT_FOUND') return because('it is not installed', 'npm ci')
  if (code === 'MODULE_NOT_FOUND') return because('its native half is not compiled', 'npm rebuild pkcs11js')
  return because(String(message).split('\n')[0] ?? '', 'npm rebuild pkcs11js')
}

/** Calls the binding, and turns its errors into TokenError. @throws TokenError */
export function call<T>(doing: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw toTokenError(error, doing)
  }
}

/**
 * - `session`: this session or its login is gone; another session may work at once.
 * - `pin`: the token refused the PIN. Another attempt could lock the token, so there is none.
 * - `request`: the token works but cannot do this; asking again gives the same answer.
 * - `token`: the token is away, or its library failed; a later attempt may work.
 */
type TokenErrorKind = 'session' | 'pin' | 'request' | 'token'

const KINDS: Readonly<Record<string, TokenErrorKind>> = {
  CKR_SESSION_HANDLE_INVALID: 'session',
  CKR_SESSION_CLOSED: 'session',
  CKR_USER_NOT_LOGGED_IN: 'session',
  // A lost session or token invalidates its handles. The signer then looks for the key again.
  CKR_KEY_HANDLE_INVALID: 'session',
  CKR_OBJECT_HANDLE_INVALID: 'session',
  // An operation of this session began and never ended.
  CKR_OPERATION_ACTIVE: 'session',
  CKR_OPERATION_NOT_INITIALIZED: 'session',

  CKR_PIN_INCORRECT: 'pin',
  CKR_PIN_INVALID: 'pin',
  CKR_PIN_LEN_RANGE: 'pin',
  CKR_PIN_EXPIRED: 'pin',
  CKR_PIN_LOCKED: 'pin',
  CKR_USER_PIN_NOT_INITIALIZED: 'pin',
  CKR_USER_ANOTHER_ALREADY_LOGGED_IN: 'pin',

  CKR_ARGUMENTS_BAD: 'request',
  CKR_ATTRIBUTE_TYPE_INVALID: 'request',
  CKR_ATTRIBUTE_VALUE_INVALID: 'request',
  CKR_BUFFER_TOO_SMALL: 'request',
  CKR_DATA_INVALID: 'request',
  CKR_DATA_LEN_RANGE: 'request',
  CKR_FUNCTION_NOT_SUPPORTED: 'request',
  CKR_KEY_FUNCTION_NOT_PERMITTED: 'request',
  CKR_KEY_SIZE_RANGE: 'request',
  CKR_KEY_TYPE_INCONSISTENT: 'request',
  CKR_MECHANISM_INVALID: 'request',
  CKR_MECHANISM_PARAM_INVALID: 'request',
  CKR_TEMPLATE_INCOMPLETE: 'request',
  CKR_TEMPLATE_INCONSISTENT: 'request',
  CKR_TOKEN_WRITE_PROTECTED: 'request',
  CKR_SESSION_READ_ONLY: 'request',
}

/** Carries the name of the return value, such as CKR_DEVICE_REMOVED, but never a PIN or a handle. */
export class TokenError extends Error {
  override readonly name = 'TokenError'
  readonly kind: TokenErrorKind
  /** `CKR_…`; empty where no return value was involved. */
  readonly code: string
  /** Exit code of a command that ends with it. */
  readonly exitCode: number

  constructor(message: string, kind: TokenErrorKind, options: { code?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.kind = kind
    this.code = options.code ?? ''
    this.exitCode = kind === 'pin' ? PIN_REFUSED_EXIT_CODE : 1
  }
}

/** Codes of vendors, like all codes missing from the table, count as a failing token. */
export function kindOfCode(code: string): TokenErrorKind {
  return KINDS[code] ?? 'token'
}

/** @param doing names the operation in the message */
export function toTokenError(error: unknown, doing: string): TokenError {
  if (error instanceof TokenError) return error
  const text = messageOf(error)
  const code = /CKR_[A-Z0-9_]+/.exec(text)?.[0] ?? ''
  return new TokenError(`${doing}: ${code || text}`, kindOfCode(code), { code, cause: error })
}
