/** Which keys may be certified (decisions 17): kind and size by policy. Weak keys of an allowed kind are pki's matter. */

import type { Spki } from '../pki/spki.ts'

export type SubjectKeyType = 'RSA' | 'P-256' | 'P-384' | 'P-521' | 'Ed25519'

export interface SubjectKeyPolicy {
  /** Of the CA profile. */
  keyTypes: readonly SubjectKeyType[]
  minRsaBits: number
  minEcBits: number
}

/** The reason for a refusal, or undefined. */
export function checkSubjectKeyType(spki: Spki, policy: SubjectKeyPolicy): string | undefined {
  const type = subjectKeyType(spki)
  if (type === undefined || !policy.keyTypes.includes(type))
    return `keys of type ${type ?? describe(spki)} are not accepted; use ${policy.keyTypes.join(', ')}`
  if (spki.kind === 'rsa' && spki.bits < policy.minRsaBits) return `an RSA key must have at least ${policy.minRsaBits} bits`
  if (spki.kind === 'ec' && Number(spki.curve.slice(2)) < policy.minEcBits)
    return `an elliptic curve key must have at least ${policy.minEcBits} bits`
  return undefined
}

function subjectKeyType(spki: Spki): SubjectKeyType | undefined {
  switch (spki.kind) {
    case 'rsa':
      return 'RSA'
    case 'ec':
      return spki.curve
    case 'ed25519':
      return 'Ed25519'
    case 'unsupported':
      return undefined
  }
}

function describe(spki: Spki): string {
  return spki.kind === 'unsupported' ? spki.oid : spki.kind
}
