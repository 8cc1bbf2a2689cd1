/** graphene-pk11, loaded when a key is in a token: the only file that knows the package. */

import type graphene from 'graphene-pk11'
import { TokenError, toTokenError } from './error.ts'

export type Graphene = typeof graphene
export type NativeModule = ReturnType<Graphene['Module']['load']>
export type NativeSlot = ReturnType<ReturnType<NativeModule['getSlots']>['items']>
export type NativeSession = ReturnType<NativeSlot['open']>
export type NativeKey = ReturnType<ReturnType<NativeSession['find']>['items']>

/** @throws TokenError in one sentence when the package, or its native half, is not there */
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

/** A call of the binding, its failure told in our terms. @throws TokenError */
export function call<T>(doing: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw toTokenError(error, doing)
  }
}
