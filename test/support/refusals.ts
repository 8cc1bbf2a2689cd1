/** Errors of a kind, where others are faults. */

import { Problem } from '../../src/shared/protocol/problem.ts'

type Kind<E extends Error = Error> = abstract new (...parts: never[]) => E

/** For `assert.throws`: an error of this kind with such a message. */
export const errorOf = (kind: Kind, message: RegExp) => (error: unknown) =>
  error instanceof kind && message.test(error.message)

/** For `assert.throws`: a problem of this type, with such a detail. */
export const problemOf =
  (type: string, detail = /(?:)/) =>
  (error: unknown) =>
    error instanceof Problem && error.type === type && detail.test(error.message)

/** @returns what was read, or undefined where an error of this kind refuses it; any other one is thrown on */
export function unlessRefused<T>(kind: Kind, read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof kind) return undefined
    throw error
  }
}

/** @returns the error of this kind that refuses it; any other one is thrown on */
export function refusalBy<E extends Error>(kind: Kind<E>, work: () => unknown): E {
  try {
    work()
  } catch (error) {
    if (error instanceof kind) return error
    throw error
  }
  throw new Error('it was accepted')
}
