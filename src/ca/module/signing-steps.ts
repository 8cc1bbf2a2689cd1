/**
 * A module that signs what this service builds, in two steps: the TBSCertificate is built and
 * committed, then signed. So a repeated step signs the same bytes, and no serial number is unknown.
 */

import {
  admittedCommonName,
  type CertificateContent,
  type CertificateProfile,
  certificateValidity,
  contentOf,
  subjectKeyType,
  USUAL_ALGORITHMS,
  type Validity,
} from '../../domain/certificate-profile.ts'
import { commonNameOf } from '../../domain/csr-check.ts'
import { constraintRefusal } from '../../domain/identifier-policy.ts'
import { type SignatureAlgorithm, verifySignature } from '../../shared/pki/algorithms.ts'
import { assembleCertificate, parseCertificate, parseTbsCertificate } from '../../shared/pki/certificate.ts'
import { constraintsOf } from '../../shared/pki/certification-path.ts'
import { parseCsr } from '../../shared/pki/csr.ts'
import type { NameConstraints } from '../../shared/pki/name-constraints.ts'
import { encodePem } from '../../shared/pki/pem.ts'
import type { IssuanceRequest, IssuanceStep, StepOptions } from '../csr-backend.ts'
import {
  asCaError,
  type Held,
  type ModuleCaller,
  type ModuleIssuer,
  nothingToCome,
  readIssuer,
  readSignature,
  refusal,
  WrongAnswer,
} from './module-answers.ts'

/** An issuer's part of a TBSCertificate. */
interface SigningIssuer extends Validity, Pick<ModuleIssuer, 'caIssuersUrls' | 'crlUrls'> {
  nameDer: Buffer
  keyIdentifier: Buffer
  signatureAlgorithm: SignatureAlgorithm
  constraints: readonly NameConstraints[]
}

/** @throws Error in a sentence when the issuer or the profile cannot serve the order */
export type BuildContent = (request: IssuanceRequest, issuer: SigningIssuer) => Promise<CertificateContent>

interface ModuleContentPolicy {
  profiles: ReadonlyMap<string, CertificateProfile>
  caIssuersUrls: readonly string[]
  policyOids: readonly string[]
}

/** The content of an order under its profile. Only the module can name a CRL, because the signer alone signs ours. */
export function moduleContent(
  { profiles, caIssuersUrls, policyOids }: ModuleContentPolicy,
  serialNumber: () => Buffer | Promise<Buffer>,
): BuildContent {
  return async ({ csr: der, identifiers, profile: name, notBefore, notAfter }, issuer) => {
    const profile = profiles.get(name)
    if (!profile) throw new Error(`there is no profile ${name} any more`)
    const csr = parseCsr(der)
    return contentOf({
      subject: { spki: csr.spki, identifiers, commonName: admittedCommonName(commonNameOf(csr), issuer.constraints) },
      profile,
      issuer,
      policyOids,
      serialNumber: await serialNumber(),
      validity: certificateValidity({ notBefore, notAfter }, profile.validity, new Date(), issuer),
      caIssuersUrls: issuer.caIssuersUrls ?? caIssuersUrls,
      crlUrls: issuer.crlUrls,
    })
  }
}

interface SigningModule {
  name: string
  call: ModuleCaller
  build: BuildContent
}

/** @throws CaError */
export function takeSigningStep(
  module: SigningModule,
  request: IssuanceRequest,
  { tbs, chain }: Held,
  { signal, isRepeated, isAbandoned }: StepOptions,
): Promise<IssuanceStep> {
  // A TBS that may have been signed is signed again, to be recorded as revoked.
  if (isAbandoned && !isRepeated) return Promise.resolve(nothingToCome())
  return tbs === undefined || chain === undefined
    ? draft(module, request, signal)
    : sign(
        module,
        Buffer.from(tbs, 'base64'),
        chain.map((text) => Buffer.from(text, 'base64')),
        signal,
      )
}

async function draft({ name, call, build }: SigningModule, request: IssuanceRequest, signal: AbortSignal) {
  try {
    const issuer = readIssuer(await call('issuer', undefined, {}, signal))
    const signing = signingIssuer(issuer)
    // Checked before the signature, because a signed certificate would be refused and then revoked.
    const outside = request.identifiers.map((one) => constraintRefusal(one, signing.constraints)).find(Boolean)
    if (outside !== undefined) return refusal(outside, 'rejectedIdentifier')
    const { tbs, findings } = await build(request, signing)
    if (findings.length > 0) return refusal(`the lint finds faults in what would be signed: ${findings.join('; ')}`)
    const state = { tbs: tbs.toString('base64'), chain: issuer.chain.map((der) => der.toString('base64')) }
    return { status: 'pending', state, retryAfterMs: 0, mayHaveIssued: false } as const
  } catch (error) {
    throw asCaError(name, error, false)
  }
}

async function sign({ name, call }: SigningModule, tbs: Buffer, chain: readonly Buffer[], signal: AbortSignal) {
  const { algorithm } = parseTbsCertificate(tbs).signatureAlgorithm
  const [issuer] = chain
  if (!algorithm || !issuer) throw new Error('a draft has an algorithm and an issuer')
  let answer: unknown
  try {
    // A view would carry the whole of its memory to the thread.
    answer = await call('sign', Uint8Array.from(tbs), { algorithm, issuer: encodePem('CERTIFICATE', issuer) }, signal)
  } catch (error) {
    throw asCaError(name, error, true)
  }
  try {
    const signature = readSignature(answer)
    if (!verifySignature(algorithm, tbs, parseCertificate(issuer).tbs.spki, signature))
      throw new WrongAnswer('does not verify with the certificate of its issuer')
    return { status: 'issued', chain: [assembleCertificate(tbs, algorithm, signature), ...chain] } as const
  } catch (error) {
    // An answer that does not verify is no certificate.
    throw asCaError(name, error, false)
  }
}

/** @throws WrongAnswer */
export function signingIssuer({ chain, algorithm, caIssuersUrls, crlUrls }: ModuleIssuer): SigningIssuer {
  const { tbs } = reading(() => parseCertificate(chain[0]))
  const keyType = subjectKeyType(tbs.spki)
  const { subjectKeyIdentifier: keyIdentifier, notBefore, notAfter } = tbs
  if (keyType === undefined) throw new WrongAnswer('has an issuer whose kind of key cannot sign here')
  if (!keyIdentifier) throw new WrongAnswer('has an issuer without a subjectKeyIdentifier')
  const signatureAlgorithm = algorithm ?? USUAL_ALGORITHMS[keyType]
  return {
    keyIdentifier,
    caIssuersUrls,
    crlUrls,
    notBefore,
    notAfter,
    nameDer: tbs.subjectDer,
    signatureAlgorithm,
    constraints: reading(() => constraintsOf(chain.map(parseCertificate))),
  }
}

function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    throw new WrongAnswer('has an issuer that cannot be read', { cause })
  }
}
