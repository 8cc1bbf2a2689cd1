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

/** Calls the binding, and turns its errors into TokenError. @throws TokenError */
export function call<T>(doing: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw toTokenError(error, doing)
  }
}
