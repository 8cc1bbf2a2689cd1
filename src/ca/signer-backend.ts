/**
 * The CA backend over a signer daemon.
 *
 * Every signature is verified before the certificate leaves. That catches faulty key hardware, a wrong issuer and a
 * foreign daemon. Verifying P-256 costs 93 µs, several times the rest of this side (15 to 25 µs). It stays in the
 * calling thread: the thread pool would cost as much CPU and a hop.
 */

import { createPublicKey, createVerify, type KeyObject } from 'node:crypto'
import { CRL_PIECE_BYTES, TEST_MESSAGE } from '../../signer/protocol/methods.ts'
import {
  SignerAnswerLost,
  SignerNameRefusal,
  SignerProtocolError,
  SignerRefusal,
} from '../../signer/protocol/signer-errors.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm, verifySignature } from '../shared/pki/algorithms.ts'
import { assembleCertificate, parseCertificate } from '../shared/pki/certificate.ts'
import { constraintsOf } from '../shared/pki/certification-path.ts'
import { type CaBackend, CaError, type CaHealth, type CaIssuer, type SignOptions, type StreamedTbs } from './backend.ts'
import { SignerClient, type SignerClientOptions, type SignerDescription } from './signer-client.ts'
import { type SignerRecords, signerRecords } from './signer-records.ts'

interface SignerBackendOptions extends Omit<SignerClientOptions, 'onConnect'> {
  onConnect?(facts: { version: string; issuers: readonly CaIssuer[] }): void
  /** The daemon has read its configuration again and has other issuers now. */
  onIssuersChanged?(issuers: readonly CaIssuer[]): void
  /**
   * The daemon has an issuer that is unusable here, such as one of a later release; the known ones
   * stay. Called once for each reason.
   */
  onIssuersRejected?(reason: Error): void
}

/** Interval at which a running daemon is asked for new issuers. */
const DESCRIBE_EVERY_MS = 5_000

interface KnownIssuer extends CaIssuer {
  publicKey: KeyObject
}

/** Starts connecting at once; `issuers()` is empty until the first connection is made. */
export class SignerBackend implements CaBackend {
  readonly kind = 'signer'
  readonly records: SignerRecords
  readonly #options: SignerBackendOptions
  readonly #client: SignerClient
  readonly #refreshing: NodeJS.Timeout
  #issuers: readonly KnownIssuer[] = []
  #rejected: string | undefined

  constructor(options: SignerBackendOptions) {
    this.#options = options
    this.#client = new SignerClient({
      ...options,
      onConnect: (description) => {
        const known = this.#issuers
        this.#issuers = readIssuers(description)
        options.onConnect?.({ version: description.version, issuers: this.#issuers })
        if (known.length > 0 && fingerprintOf(known) !== fingerprintOf(this.#issuers))
          options.onIssuersChanged?.(this.#issuers)
      },
    })
    this.records = signerRecords(this.#client)
    this.#refreshing = setInterval(() => this.#refreshIssuers(), DESCRIBE_EVERY_MS).unref()
  }

  issuers(): readonly CaIssuer[] {
    return this.#issuers
  }

  outage(): undefined {
    return undefined
  }

  unreachable(): Error | undefined {
    return this.#client.failure
  }

  signCertificate(id: string, tbs: Buffer, options: SignOptions): Promise<Buffer> {
    return asCaError(this.#signCertificate(id, tbs, options))
  }

  signCrl(id: string, tbs: StreamedTbs, options: SignOptions): Promise<Buffer> {
    return asCaError(this.#signCrl(id, tbs, options))
  }

  testSign({ timeoutMs }: { timeoutMs: number }): Promise<{ issuer: string; durationMs: number }[]> {
    return asCaError(this.#testSign(timeoutMs))
  }

  health({ timeoutMs }: { timeoutMs: number }): Promise<CaHealth> {
    return asCaError(this.#health(timeoutMs))
  }

  close(): Promise<void> {
    clearInterval(this.#refreshing)
    return this.#client.close()
  }

  #refreshIssuers(): void {
    if (!this.#client.connected) return
    // Without an answer the issuers stay as they are; a new connection describes them again.
    this.#client
      .describe(DESCRIBE_EVERY_MS)
      .then(
        (description) => this.#adoptIssuers(description),
        () => undefined,
      )
      .catch((reason: Error) => this.#keepIssuers(reason))
  }

  #adoptIssuers(description: SignerDescription): void {
    const described = readIssuers(description)
    this.#rejected = undefined
    if (fingerprintOf(described) === fingerprintOf(this.#issuers)) return
    this.#issuers = described
    this.#options.onIssuersChanged?.(this.#issuers)
  }

  #keepIssuers(reason: Error): void {
    if (reason.message === this.#rejected) return
    this.#rejected = reason.message
    this.#options.onIssuersRejected?.(reason)
  }

  /** A reply of the daemon implies that its issuers are known, so a missing one was removed. */
  #requireIssuer(id: string): KnownIssuer {
    const issuer = this.#issuers.find((known) => known.id === id)
    if (issuer) return issuer
    throw new CaError(`the signer has no issuer ${id}`, { retryable: true, mayHaveIssued: true })
  }

  async #signCertificate(id: string, tbs: Buffer, { timeoutMs, requester }: SignOptions): Promise<Buffer> {
    const request = { issuer: id, requester }
    const { payload } = await this.#client.call('signCertificate', request, { timeoutMs, payload: tbs })
    const issuer = this.#requireIssuer(id)
    requireSignature(issuer, tbs, payload)
    return assembleCertificate(tbs, issuer.signatureAlgorithm, payload)
  }

  async #signCrl(id: string, tbs: StreamedTbs, { timeoutMs, requester }: SignOptions): Promise<Buffer> {
    const begin = { issuer: id, requester, bytes: tbs.length }
    const { upload } = (await this.#client.call('beginCrl', begin, { timeoutMs })).meta
    const verifying = beginVerification(tbs.signatureAlgorithm)
    let offset = 0
    for await (const piece of inPieces(tbs.pieces, CRL_PIECE_BYTES)) {
      await this.#client.call('appendCrl', { upload, offset }, { timeoutMs, payload: piece })
      verifying.update(piece)
      offset += piece.length
    }
    const { payload: signature } = await this.#client.call('signCrl', { upload }, { timeoutMs })
    if (verifying.isBy(this.#requireIssuer(id).publicKey, signature)) return signature
    throw new CaError(`the signature of the CRL by issuer ${id} does not verify`, { retryable: true })
  }

  async #testSign(timeoutMs: number) {
    // The first connection also loads the issuers.
    await this.#client.call('health', {}, { timeoutMs })
    return Promise.all(
      this.#issuers.map(async (issuer) => {
        const startedAt = performance.now()
        const request = { issuer: issuer.id, requester: 'test' }
        const { payload } = await this.#client.call('testSign', request, { timeoutMs })
        requireSignature(issuer, TEST_MESSAGE, payload)
        return { issuer: issuer.id, durationMs: performance.now() - startedAt }
      }),
    )
  }

  /** Omits why a token is away: that may name slots and other keys, and health is public. */
  async #health(timeoutMs: number): Promise<CaHealth> {
    const { signing, tokens = [] } = (await this.#client.call('health', {}, { timeoutMs })).meta
    return { signing, tokens }
  }
}

function readIssuers({ issuers }: SignerDescription): KnownIssuer[] {
  return issuers.map(({ id, algorithm, chain, alternateChains }) => {
    const certificate = chain[0]!
    const { tbs } = parseCertificate(certificate)
    if (!(algorithm in SIGNATURE_ALGORITHMS)) throw new Error(`issuer ${id}: unknown signature algorithm ${algorithm}`)
    if (!tbs.subjectKeyIdentifier) throw new Error(`issuer ${id}: its certificate has no subjectKeyIdentifier`)
    return {
      id,
      certificate,
      chain,
      alternateChains,
      nameDer: tbs.subjectDer,
      keyIdentifier: tbs.subjectKeyIdentifier,
      signatureAlgorithm: algorithm as SignatureAlgorithm,
      notBefore: tbs.notBefore,
      notAfter: tbs.notAfter,
      constraints: constraintsOf([chain, ...alternateChains].flat().map(parseCertificate)),
      publicKey: createPublicKey({ key: tbs.spki.der, format: 'der', type: 'spki' }),
    }
  })
}

/** Equal texts mean equal issuers in equal order; the first issuer is the default. */
function fingerprintOf(issuers: readonly KnownIssuer[]): string {
  return issuers
    .map(({ id, signatureAlgorithm, chain, alternateChains }) =>
      [
        id,
        signatureAlgorithm,
        ...[chain, ...alternateChains].map((one) => Buffer.concat(one).toString('latin1')),
      ].join(),
    )
    .join('\n')
}

function requireSignature({ id, signatureAlgorithm, publicKey }: KnownIssuer, signed: Buffer, signature: Buffer): void {
  if (verifySignature(signatureAlgorithm, signed, publicKey, signature)) return
  throw new CaError(`the signature by issuer ${id} does not verify with its certificate`, { retryable: true })
}

/** Verifies a message in pieces. Ed25519 needs the whole message, as signing does. */
function beginVerification(algorithm: SignatureAlgorithm) {
  const { hash, keyKind } = SIGNATURE_ALGORITHMS[algorithm]
  if (hash === null) {
    const pieces: Buffer[] = []
    return {
      update: (piece: Buffer) => void pieces.push(piece),
      isBy: (key: KeyObject, signature: Buffer) => verifySignature(algorithm, Buffer.concat(pieces), key, signature),
    }
  }
  const verify = createVerify(hash)
  return {
    update: (piece: Buffer) => void verify.update(piece),
    isBy: (key: KeyObject, signature: Buffer) => key.asymmetricKeyType === keyKind && verify.verify(key, signature),
  }
}

/** Cuts the bytes into pieces of exactly `octets`; the last one may be shorter. */
async function* inPieces(chunks: AsyncIterable<Buffer>, octets: number): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of chunks) {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let at = 0
    for (; held.length - at >= octets; at += octets) yield held.subarray(at, at + octets)
    held = held.subarray(at)
  }
  if (held.length > 0) yield held
}

/** Only a refusal is final; any other failure may be repaired while the order waits. */
async function asCaError<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    if (error instanceof CaError) throw error
    const { message, cause } = error instanceof Error ? error : new Error(String(error))
    const nameRefusal = error instanceof SignerNameRefusal ? error.reason : undefined
    const mayHaveIssued = error instanceof SignerAnswerLost || error instanceof SignerProtocolError
    throw new CaError(message, { retryable: !(error instanceof SignerRefusal), cause, nameRefusal, mayHaveIssued })
  }
}
