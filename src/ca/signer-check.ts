/** The first contact with a signer: a test signature by every issuer, or a sentence about the failure. */

import { parseCertificate } from '../shared/pki/certificate.ts'
import { ANY_EXTENDED_KEY_USAGE } from '../shared/pki/oids.ts'
import type { CaBackend, CaIssuer } from './backend.ts'

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

/** The duties that the service will ask of each issuer. */
export interface IssuerDuties {
  signsCrls: boolean
  /** Extended key usages of each profile. */
  purposes: readonly (readonly string[])[]
}

/** @throws Error in one sentence for an issuer with which the service would never be ready (RFC 5280 §4.2.1.3, §4.2.1.12) */
export function requireUsableIssuers(
  issuers: readonly Pick<CaIssuer, 'id' | 'chain'>[],
  { signsCrls, purposes }: IssuerDuties,
): void {
  for (const { id, chain } of issuers) {
    const path = chain.map((der) => parseCertificate(der).tbs)
    const usages = path[0]?.keyUsages ?? []
    if (signsCrls && usages.length > 0 && !usages.includes('crl_sign'))
      throw new Error(
        `the issuer ${id} cannot sign CRLs: the key usage of its certificate lacks cRLSign; have it certified with it, or set crl.enabled: false`,
      )
    const limits = path.map((one) => one.extendedKeyUsages).filter((all) => all.length > 0)
    const forbidden = (wanted: readonly string[]) =>
      limits.find((all) => !all.includes(ANY_EXTENDED_KEY_USAGE) && !wanted.every((one) => all.includes(one as never)))
    const limit = purposes.every((wanted) => forbidden(wanted)) && forbidden(purposes[0] ?? [])
    if (limit)
      throw new Error(
        `the issuer ${id} is for ${limit.join(', ')} only, by the extended key usage in its chain, and each of ca.profiles asks for more`,
      )
  }
}
