/**
 * The first contact with a signer: a test signature by every issuer, or a sentence about the
 * failure.
 */

import type { CaBackend } from './backend.ts'

/** Advice for the operator about an unreachable socket, by the system's error code. */
const ADVICE: Record<string, string> = {
  ENOENT: 'there is no such socket; is chancery-signer running?',
  ECONNREFUSED: 'nothing listens on it; is chancery-signer running?',
  EACCES: 'permission denied; the user of this process has to be in the group of the socket and of its folder',
}

/** @throws Error when an issuer does not sign, or there is none */
export async function requireTestSignatures(
  ca: Pick<CaBackend, 'testSign'>,
  socketPath: string,
  timeoutMs: number,
): Promise<{ issuer: string; durationMs: number }[]> {
  const signatures = await ca.testSign({ timeoutMs }).catch((error: Error) => {
    throw new Error(`no test signature from the signer at ${socketPath}: ${reasonOf(error)}`, { cause: error })
  })
  if (signatures.length === 0) throw new Error(`the signer at ${socketPath} has no issuer`)
  return signatures
}

function reasonOf({ message, cause }: Error): string {
  if (!(cause instanceof Error)) return message
  return adviceOn(cause) ?? `${message}: ${cause.message}`
}

/** Tells the operator why there is no connection to the signer. */
export function connectionTrouble(failure: Error): string {
  return `the signer is not reachable: ${adviceOn(failure) ?? failure.message}`
}

function adviceOn(error: Error): string | undefined {
  return ADVICE[(error as NodeJS.ErrnoException).code ?? '']
}
