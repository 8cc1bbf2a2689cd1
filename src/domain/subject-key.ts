/** Which keys may be certified (decisions 17): kind and size by policy. Weak spellings of an allowed key are pki's matter. */

import type { Curve } from '../pki/algorithms.ts'
import type { Spki } from '../pki/spki.ts'

export interface SubjectKeyPolicy {
  minRsaBits: number
  /** Curves at least as large as `security.min_csr_ec_key_size`. */
  curves: readonly Curve[]
  /** Key types of the CA profile: `rsa`, `ec`, `ed25519`. */
  keyTypes: readonly string[]
}

/** The reason for a refusal, or undefined. */
export function checkSubjectKeyKind(spki: Spki, policy: SubjectKeyPolicy): string | undefined {
  if (spki.kind === 'unsupported') return `keys of type ${spki.oid} are not supported`
  if (!policy.keyTypes.includes(spki.kind))
    return `the certificate profile accepts ${policy.keyTypes.join(', ')} keys, not ${spki.kind}`
  if (spki.kind === 'rsa' && spki.bits < policy.minRsaBits)
    return `an RSA key must have at least ${policy.minRsaBits} bits`
  if (spki.kind === 'ec' && !policy.curves.includes(spki.curve))
    return `curve ${spki.curve} is not accepted; use ${policy.curves.join(' or ')}`
  return undefined
}
