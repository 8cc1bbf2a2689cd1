/** The request of a test: an ephemeral key and its CSR, checked like that of a client. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { CertificateProfile } from '../domain/certificate-profile.ts'
import { type CsrPolicy, checkCsr } from '../domain/csr-check.ts'
import { SUBJECT_KEY_TYPES, type SubjectKeyType } from '../domain/subject-key.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { type Csr, parseCsr } from '../shared/pki/csr.ts'
import { buildCsr } from '../shared/pki/csr-writer.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'

export interface TestRequest {
  csr: Csr
  keyType: SubjectKeyType
  identifiers: readonly Identifier[]
}

/** The smaller keys first. */
const KEY_TYPES: readonly SubjectKeyType[] = ['P-256', 'P-384', 'P-521', 'Ed25519', 'RSA']
const USUAL_ALGORITHMS: Readonly<Record<SubjectKeyType, SignatureAlgorithm>> = {
  'P-256': 'SHA256withECDSA',
  'P-384': 'SHA384withECDSA',
  'P-521': 'SHA512withECDSA',
  Ed25519: 'Ed25519',
  RSA: 'SHA256withRSA',
}
const LEAST_RSA_BITS = 2048
/** No account asks, so no account key can be the same. */
const NO_ACCOUNT_KEY = Buffer.alloc(0)

/** @throws Problem badCSR when no kind of key passes, as where key types and curves contradict each other */
export function makeTestRequest(
  name: string,
  { keyTypes }: Pick<CertificateProfile, 'keyTypes'>,
  policy: Omit<CsrPolicy, 'keyTypes'>,
): TestRequest {
  const identifiers: Identifier[] = [{ type: 'dns', value: name }]
  const attempt = (keyType: SubjectKeyType): TestRequest => {
    const csr = parseCsr(csrOf(keyType, name, policy))
    checkCsr(csr, identifiers, NO_ACCOUNT_KEY, { ...policy, keyTypes })
    return { csr, keyType, identifiers }
  }
  const candidates = KEY_TYPES.filter((type) => keyTypes.includes(type))
  for (const keyType of candidates.slice(0, -1))
    try {
      return attempt(keyType)
    } catch {
      // The last kind of key says what is wrong.
    }
  return attempt(candidates.at(-1) ?? SUBJECT_KEY_TYPES[0])
}

type RequestPolicy = Pick<CsrPolicy, 'signatureAlgorithms' | 'key'>

function csrOf(keyType: SubjectKeyType, name: string, { signatureAlgorithms, key }: RequestPolicy): Buffer {
  const { publicKey, privateKey } = keyPair(keyType, key.rsaMinBits)
  const usual = USUAL_ALGORITHMS[keyType]
  const { keyKind } = SIGNATURE_ALGORITHMS[usual]
  const fitting = signatureAlgorithms.filter((algorithm) => SIGNATURE_ALGORITHMS[algorithm].keyKind === keyKind)
  const signatureAlgorithm = fitting.includes(usual) ? usual : (fitting[0] ?? usual)
  const { hash } = SIGNATURE_ALGORITHMS[signatureAlgorithm]
  return buildCsr({
    spki: publicKey.export({ type: 'spki', format: 'der' }),
    ...{ dnsNames: [name], ipAddresses: [], signatureAlgorithm },
    sign: (info) => sign(hash, info, privateKey),
  })
}

function keyPair(keyType: SubjectKeyType, rsaMinBits: number): { publicKey: KeyObject; privateKey: KeyObject } {
  if (keyType === 'RSA') return generateKeyPairSync('rsa', { modulusLength: Math.max(LEAST_RSA_BITS, rsaMinBits) })
  if (keyType === 'Ed25519') return generateKeyPairSync('ed25519')
  return generateKeyPairSync('ec', { namedCurve: keyType })
}
