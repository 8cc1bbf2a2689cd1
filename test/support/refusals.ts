/** Errors of a kind, where others are faults. */

type Kind = abstract new (...parts: never[]) => Error

/** For `assert.throws`: an error of this kind with such a message. */
export const errorOf = (kind: Kind, message: RegExp) => (error: unknown) =>
  error instanceof kind && message.test(error.message)

/** @returns what was read, or undefined where an error of this kind refuses it; any other one is thrown on */
export function unlessRefused<T>(kind: Kind, read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof kind) return undefined
    throw error
  }
}
