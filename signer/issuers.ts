/** The daemon's issuers: certificate, chain, key and policy, checked against each other before the start. */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { messageOf } from '../src/shared/lib/errors.ts'
import { Slots } from '../src/shared/lib/slots.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm, verifySignature } from '../src/shared/pki/algorithms.ts'
import { type Certificate, fingerprintSha256, parseCertificate } from '../src/shared/pki/certificate.ts'
import { checkIssuing, constraintsOf, isIssuedBy } from '../src/shared/pki/certification-path.ts'
import { admitsAnyName, type NameConstraints } from '../src/shared/pki/name-constraints.ts'
import { ANY_EXTENDED_KEY_USAGE } from '../src/shared/pki/oids.ts'
import { decodePem } from '../src/shared/pki/pem.ts'
import { sha256Hex } from './audit/line.ts'
import type { IssuerConfig, KeyConfig } from './config.ts'
import { type KeyLoader, readKeySecret } from './keys/load-key.ts'
import { TokenError } from './keys/pkcs11/native.ts'
import type { KeyState, SigningKey } from './keys/signing-key.ts'
import { compilePolicy, type SigningPolicy } from './policy.ts'
import { TEST_MESSAGE } from './protocol/methods.ts'
import { PIN_REFUSED_EXIT_CODE, SignerUnavailable } from './protocol/signer-errors.ts'

export class TokenBucket {
  readonly #intervalMs: number
  /** When the bucket will be full again, in the time of `performance.now()`. */
  #fullAt = 0

  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond
  }

  /** Takes one token if there is one. */
  take(now: number): boolean {
    const fullAt = Math.max(this.#fullAt, now) + this.#intervalMs
    // A rate below one per second still allows a burst of one token.
    if (fullAt - now > Math.max(1000, this.#intervalMs)) return false
    this.#fullAt = fullAt
    return true
  }
}

export interface Issuer {
  id: string
  algorithm: SignatureAlgorithm
  /** DER, the issuer's own certificate first. */
  chain: readonly Buffer[]
  /** Chains to other roots; each begins with a certificate of the same name and key. */
  alternateChains: readonly (readonly Buffer[])[]
  key: SigningKey
  /** How `key` was loaded; an equal configuration keeps the key open. */
  keyConfig: KeyConfig
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  /** Undefined for a key that signs in place. */
  queue: Slots | undefined
  bucket: TokenBucket | undefined
  /** A second bucket of the same rate, for CRLs and test signatures: certificates cannot use it up. */
  upkeepBucket: TokenBucket | undefined
  policy: SigningPolicy
  notBefore: Date
  notAfter: Date
  /** When the first CA certificate above it ends, in any chain; undefined for a root. */
  chainEndsAt: Date | undefined
}

export interface IssuerOptions {
  keys: KeyLoader
  /** A key went away or came back. */
  onKeyState(issuer: string, state: KeyState): void
  /** Issuers in use before a reread. Their keys stay open, and an id must keep its key. */
  running?: ReadonlyMap<string, Issuer>
}

/**
 * Loads every issuer. A test signature proves that key and certificate belong together.
 * @throws Error with one sentence per unusable issuer; PinRefused when a token refused a PIN
 */
export async function loadIssuers(
  configs: readonly IssuerConfig[],
  options: IssuerOptions,
): Promise<Map<string, Issuer>> {
  const issuers = new Map<string, Issuer>()
  const problems: { text: string; error: unknown }[] = []
  // One at a time: secrets may need the terminal, and a refused PIN ends the loop.
  for (const config of configs) {
    try {
      const issuer = await loadIssuer(config, options)
      const twin = [...issuers.values()].find((other) => isSameAuthority(other, issuer))
      issuers.set(config.id, issuer)
      if (twin) throw new Error(`it has the name and the key of ${twin.id}: ${ONE_ID}`)
    } catch (error) {
      problems.push({ text: `issuer ${config.id}: ${messageOf(error)}`, error })
      if (isPinRefusal(error)) break
    }
  }
  if (problems.length === 0) return issuers
  await closeKeys(issuers, options.running)
  const message = problems.map(({ text }) => text).join('\n')
  throw problems.some(({ error }) => isPinRefusal(error)) ? new PinRefused(message) : new Error(message)
}

/**
 * @param staying issuers whose keys stay open
 * @param idleWithinMs time for signatures that already wait for a key
 */
export async function closeKeys(
  issuers: ReadonlyMap<string, Issuer>,
  staying: ReadonlyMap<string, Issuer> = new Map(),
  idleWithinMs = 0,
): Promise<void> {
  const open = new Set([...staying.values()].map(({ key }) => key))
  const closing = [...issuers.values()].filter(({ key }) => !open.has(key))
  await Promise.all(
    closing.map(async ({ key, queue }) => {
      await queue?.idle(idleWithinMs)
      await key.close()
    }),
  )
}

/** An operator must correct the PIN before the next start: each attempt brings the token nearer to its lock. */
class PinRefused extends Error {
  override readonly name = 'PinRefused'
  readonly exitCode = PIN_REFUSED_EXIT_CODE
}

const isPinRefusal = (error: unknown): boolean => error instanceof TokenError && error.kind === 'pin'

const ONE_ID = 'put a renewed certificate in the place of the old one, under the id that the URL of its CRL has'

/** They share serial numbers and one CRL (RFC 5280 §5). */
const isSameAuthority = (one: Issuer, other: Issuer): boolean =>
  one.spki.equals(other.spki) && subjectOf(one).equals(subjectOf(other))

/** Hex SHA-256 of name and key identifier, which tell a CA from all others (RFC 5280 §4.2.1.1). */
export const issuerKeyOf = ({ policy: { issuer } }: Issuer): string =>
  sha256Hex(Buffer.concat([issuer.nameDer, issuer.keyIdentifier]))

const subjectOf = ({ chain: [own] }: Issuer): Buffer => parseCertificate(own!).tbs.subjectDer

async function loadIssuer(config: IssuerConfig, { keys, onKeyState, running }: IssuerOptions): Promise<Issuer> {
  const certificates = [config.certificate, ...(config.chain === undefined ? [] : [config.chain])].flatMap(
    readCertificates,
  )
  const own = certificates[0]!
  checkIssuerCertificate(config.certificate, own)
  checkChain(certificates)
  const alternateChains = config.alternate_chains.map((file) => loadAlternateChain(file, own))
  const chains = [certificates, ...alternateChains]

  const publicKey = createPublicKey({ key: own.tbs.spki.der, format: 'der', type: 'spki' })
  const algorithm = findAlgorithm(publicKey, config.hash)
  const policy = policyOf(config, chains, algorithm)
  const spki = own.tbs.spki.der
  const before = running?.get(config.id)
  // Waiting TBSCertificates name this id but were built for the old key.
  if (before && !before.spki.equals(spki))
    throw new Error(
      'it has another key now; give the new issuer an id of its own, and keep this one until it has run out',
    )
  const facts = { algorithm, spki, onStateChange: (state: KeyState) => onKeyState(config.id, state) }
  const { key, queue } = await openKey(config.key, before, async () =>
    keys.load(config.key, await readKeySecret(config.key), facts),
  )
  if (!verifySignature(algorithm, TEST_MESSAGE, publicKey, await makeTestSignature(key, queue))) {
    throw new Error(`${config.key.file ?? 'the key in the token'} is not the key of ${config.certificate}`)
  }
  const perSecond = config.policy.max_signatures_per_second
  return {
    id: config.id,
    algorithm,
    chain: certificates.map(({ der }) => der),
    alternateChains: alternateChains.map((chain) => chain.map(({ der }) => der)),
    key,
    keyConfig: config.key,
    spki,
    queue,
    bucket: perSecond === undefined ? undefined : new TokenBucket(perSecond),
    upkeepBucket: perSecond === undefined ? undefined : new TokenBucket(perSecond),
    policy,
    notBefore: own.tbs.notBefore,
    notAfter: own.tbs.notAfter,
    chainEndsAt: chains
      .flatMap(([, ...above]) => above)
      .map(({ tbs }) => tbs.notAfter)
      .sort((a, b) => a.getTime() - b.getTime())[0],
  }
}

/**
 * Clients may get any of the chains, so the constraints of all of them count.
 * @throws Error in one sentence when nothing could be signed
 */
function policyOf(
  config: IssuerConfig,
  chains: readonly (readonly Certificate[])[],
  signatureAlgorithm: SignatureAlgorithm,
): SigningPolicy {
  const { tbs } = chains[0]![0]!
  const each = [...new Map(chains.flat().map((one) => [fingerprintSha256(one.der), one])).values()]
  const policy = compilePolicy(config.policy, {
    nameDer: tbs.subjectDer,
    keyIdentifier: tbs.subjectKeyIdentifier!,
    signatureAlgorithm,
    notBefore: tbs.notBefore,
    notAfter: tbs.notAfter,
    maySignCrls: tbs.keyUsages.length === 0 || tbs.keyUsages.includes('crl_sign'),
    constraints: readConstraints(each),
    purposes: each
      .map((one) => one.tbs.extendedKeyUsages)
      .filter((all) => all.length > 0 && !all.includes(ANY_EXTENDED_KEY_USAGE)),
  })
  if (policy.extendedKeyUsages.size === 0)
    throw new Error(
      `${config.certificate}: its extended key usages, and those above it, allow none of policy.extended_key_usages`,
    )
  if (!admitsAnyName(policy.constraints))
    throw new Error(
      `${config.certificate}: its name constraints, those above it, and policy.permitted and policy.excluded together admit no name`,
    )
  return policy
}

function readConstraints(certificates: readonly Certificate[]): NameConstraints[] {
  try {
    return constraintsOf(certificates)
  } catch (error) {
    throw new Error(`name constraints in the chain cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/**
 * The next start must not be the first to see what SIGHUP could: a key in a file is read again, a PIN compared. A key that
 * stays open keeps its queue, because old and new issuer share its sessions.
 */
async function openKey(
  config: KeyConfig,
  before: Issuer | undefined,
  load: () => Promise<SigningKey>,
): Promise<Pick<Issuer, 'key' | 'queue'>> {
  const same = before && isDeepStrictEqual(before.keyConfig, config) ? before : undefined
  try {
    if (same && config.pkcs11?.pin_file) same.key.requirePin?.((await readKeySecret(config))!)
    if (same && (config.pkcs11 || config.passphrase_prompt)) return same
    const key = await load()
    return { key, queue: key.concurrency > 0 ? new Slots(key.concurrency) : undefined }
  } catch (error) {
    // After a change to the user of `user`, files that root has read may be closed to it.
    if (same && isDenied(error)) return same
    throw error
  }
}

const isDenied = (error: unknown) => ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'EACCES'

/** @throws SignerUnavailable when the time passes before the turn of `make` */
export async function inTurn(queue: Slots, startBefore: number, make: () => Promise<Buffer> | Buffer): Promise<Buffer> {
  const made = await queue.run(startBefore, make)
  if (made === undefined) throw new SignerUnavailable('the time to sign passed while waiting for the key')
  return made
}

/** The test waits in the queue like a client, because a key in use may have no free session. */
function makeTestSignature(key: SigningKey, queue: Slots | undefined): Promise<Buffer> | Buffer {
  const sign = () => key.sign(TEST_MESSAGE)
  return queue ? inTurn(queue, performance.now() + (key.maxWaitMs ?? Number.POSITIVE_INFINITY), sign) : sign()
}

/** The first certificate of every chain must have the name and key identifier that a leaf repeats. */
function loadAlternateChain(file: string, own: Certificate): Certificate[] {
  const certificates = readCertificates(file)
  const first = certificates[0]!
  checkIssuerCertificate(file, first)
  const isSameIssuer =
    first.tbs.subjectDer.equals(own.tbs.subjectDer) &&
    first.tbs.spki.der.equals(own.tbs.spki.der) &&
    first.tbs.subjectKeyIdentifier!.equals(own.tbs.subjectKeyIdentifier!)
  if (!isSameIssuer) throw new Error(`${file}: its first certificate has not the name and key of the issuer`)
  checkChain(certificates)
  return certificates
}

/** PEM; at least one. @throws Error in one sentence */
export function readCertificates(file: string): Certificate[] {
  try {
    const certificates = decodePem(readFileSync(file, 'utf8')).map(({ label, der }) => {
      if (label !== 'CERTIFICATE') throw new Error(`holds a PEM block ${label}`)
      return parseCertificate(der)
    })
    if (certificates.length > 0) return certificates
    throw new Error('holds no certificate')
  } catch (cause) {
    throw new Error(`${file}: ${messageOf(cause)}`, { cause })
  }
}

/** @throws Error in one sentence when the certificate cannot be an issuer */
export function checkIssuerCertificate(file: string, { tbs }: Certificate): void {
  if (!tbs.isCa) throw new Error(`${file}: the issuer is not a CA certificate`)
  // RFC 5280 §4.2.1.3: the extension, if present, must allow this use.
  if (tbs.keyUsages.length > 0 && !tbs.keyUsages.includes('key_cert_sign')) {
    throw new Error(`${file}: its key usage does not allow signing certificates`)
  }
  if (!tbs.subjectKeyIdentifier) throw new Error(`${file}: the issuer has no subjectKeyIdentifier`)
}

/** @throws Error in one sentence for a chain that no client accepts */
function checkChain(certificates: readonly Certificate[]): void {
  certificates.forEach((certificate, index) => {
    const above = certificates[index + 1]
    if (above && !isIssuedBy(certificate, above))
      throw new Error(`certificate ${index + 1} of the chain is not signed by certificate ${index + 2}`)
  })
  const [finding] = checkIssuing(certificates, 1)
  if (finding !== undefined) throw new Error(finding)
}

export function findAlgorithm(key: KeyObject, hash: IssuerConfig['hash']): SignatureAlgorithm {
  const found = Object.entries(SIGNATURE_ALGORITHMS).find(
    ([, facts]) => facts.keyKind === key.asymmetricKeyType && (facts.hash === null || facts.hash === hash),
  )
  if (!found) throw new Error(`keys of kind ${key.asymmetricKeyType} do not sign certificates here`)
  return found[0] as SignatureAlgorithm
}
