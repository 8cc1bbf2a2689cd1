/** A test of a backend: its request, with an ephemeral key, and its steps, in memory and without an order. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { CaError } from '../ca/backend.ts'
import type { BackendState, CsrBackend, IssuanceRequest, IssuanceStep } from '../ca/csr-backend.ts'
import {
  type CertificateProfile,
  SUBJECT_KEY_TYPES,
  type SubjectKeyType,
  USUAL_ALGORITHMS,
} from '../domain/certificate-profile.ts'
import { type CsrPolicy, checkCsr } from '../domain/csr-check.ts'
import { restSeconds } from '../domain/csr-issuance.ts'
import { SIGNATURE_ALGORITHMS } from '../shared/pki/algorithms.ts'
import { buildCsr, type Csr, parseCsr } from '../shared/pki/csr.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'

interface TestRequest {
  csr: Csr
  keyType: SubjectKeyType
  identifiers: readonly Identifier[]
}

/** The smaller keys first. */
const KEY_TYPES: readonly SubjectKeyType[] = ['P-256', 'P-384', 'P-521', 'Ed25519', 'RSA']
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
    dnsNames: [name],
    ipAddresses: [],
    signatureAlgorithm,
    sign: (info) => sign(hash, info, privateKey),
  })
}

function keyPair(keyType: SubjectKeyType, rsaMinBits: number): { publicKey: KeyObject; privateKey: KeyObject } {
  if (keyType === 'RSA') return generateKeyPairSync('rsa', { modulusLength: Math.max(LEAST_RSA_BITS, rsaMinBits) })
  if (keyType === 'Ed25519') return generateKeyPairSync('ed25519')
  return generateKeyPairSync('ec', { namedCurve: keyType })
}

interface TestIssuanceOptions {
  timeoutMs: number
  /** A step has failed and is tried again. */
  onFailure(error: CaError): void
}

type Ended = Exclude<IssuanceStep, { status: 'pending' }>

/** After the end of its time, for what a backend has to take back. */
const CLEANUP_MS = 30_000

/**
 * Asks again for a certificate that may exist and never begins a second one, as in csr-issuances.ts.
 * @throws CaError; `mayHaveIssued` when the CA may have a certificate all the same
 */
export async function issueForTest(
  backend: CsrBackend,
  request: IssuanceRequest,
  { timeoutMs, onFailure }: TestIssuanceOptions,
): Promise<Ended> {
  const deadline = performance.now() + timeoutMs
  let state: BackendState | undefined
  let [mayHaveIssued, isRepeated, failures] = [false, false, 0]
  for (;;) {
    const lateMs = performance.now() - deadline
    const isAbandoned = lateMs > 0
    const isOver = lateMs > CLEANUP_MS || (isAbandoned && state === undefined && !mayHaveIssued)
    if (isOver)
      throw new CaError(`no certificate within ${Math.round(timeoutMs / 1000)} seconds`, {
        retryable: false,
        mayHaveIssued,
      })
    let pauseMs: number
    try {
      const signal = AbortSignal.timeout(backend.stepTimeoutMs)
      const step = await backend.advance(request, state, { signal, isRepeated, isAbandoned })
      if (step.status !== 'pending') return step
      ;({ state, mayHaveIssued, retryAfterMs: pauseMs } = step)
      ;[isRepeated, failures] = [false, 0]
    } catch (error) {
      if (!(error instanceof CaError) || !error.retryable) throw error
      onFailure(error)
      mayHaveIssued ||= error.mayHaveIssued
      isRepeated ||= mayHaveIssued
      pauseMs = restSeconds(++failures, error.retryAfterMs) * 1000
    }
    const leftMs = deadline + (isAbandoned ? CLEANUP_MS : 0) - performance.now()
    await sleep(Math.max(0, Math.min(pauseMs, leftMs + 1)))
  }
}
