/**
 * Kinds of key that a CA profile certifies (`ca.profiles.*.key_types`). src/shared/pki checks sizes
 * and weak keys.
 */

import type { KeyKind } from '../shared/pki/algorithms.ts'
import type { Spki } from '../shared/pki/spki.ts'

export const SUBJECT_KEY_TYPES = ['RSA', 'P-256', 'P-384', 'P-521', 'Ed25519'] as const
export type SubjectKeyType = (typeof SUBJECT_KEY_TYPES)[number]

export const SUBJECT_KEY_KINDS: Record<SubjectKeyType, KeyKind> = {
  RSA: 'rsa',
  'P-256': 'ec',
  'P-384': 'ec',
  'P-521': 'ec',
  Ed25519: 'ed25519',
}

/** The reason for a refusal, or undefined. */
export function checkSubjectKeyType(spki: Spki, accepted: readonly SubjectKeyType[]): string | undefined {
  const type = subjectKeyType(spki)
  if (type !== undefined && accepted.includes(type)) return undefined
  return `keys of type ${type ?? 'unknown'} are not accepted by this certificate profile; use ${accepted.join(', ')}`
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
