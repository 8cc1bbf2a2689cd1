/** The first word with a signer: a signature by every issuer, or a sentence that says which signer did not give it and why. */

import type { CaBackend } from '../ca/backend.ts'

/** What the operator can do about a socket that cannot be connected to, by the system's error code. */
const ADVICE: Record<string, string> = {
  ENOENT: 'there is no such socket; is chancery-signer running?',
  ECONNREFUSED: 'nothing listens on it; is chancery-signer running?',
  EACCES: 'permission denied; the user of this process has to be in the group of the socket and of its folder',
}

/** @throws Error when one issuer does not sign, or there is none */
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

/** Why there is no connection to the signer, for its operator. */
export function connectionTrouble(failure: Error): string {
  return `the signer is not reachable: ${adviceOn(failure) ?? failure.message}`
}

function adviceOn(error: Error): string | undefined {
  return ADVICE[(error as NodeJS.ErrnoException).code ?? '']
}
