/** Loads graphene-pk11 when a key is in a token. Only this file knows the package. */

import type graphene from 'graphene-pk11'
import { TokenError, toTokenError } from './error.ts'

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
export interface MissingModule {
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
