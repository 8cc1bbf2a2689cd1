/**
 * The CA backend over a signer daemon.
 *
 * Every signature is verified before the certificate leaves. That catches faulty key hardware, a
 * wrong issuer and a foreign daemon. Verifying P-256 costs 93 µs, several times the rest of this
 * side (15 to 25 µs). It stays in the calling thread: the thread pool would cost as much CPU and a
 * hop.
 */

import { createPublicKey, createVerify, type KeyObject } from 'node:crypto'
import { CRL_PIECE_BYTES, SignerNameRefusal, SignerRefusal, TEST_MESSAGE } from '../../signer/protocol.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import { assembleCertificate, parseCertificate } from '../shared/pki/certificate.ts'
import { verifySignature } from '../shared/pki/signature.ts'
import { type CaBackend, CaError, type CaIssuer, type SignOptions, type StreamedTbs } from './backend.ts'
import { SignerClient, type SignerClientOptions, type SignerDescription } from './signer-client.ts'

export interface SignerBackendOptions extends Omit<SignerClientOptions, 'onConnect'> {
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

/** Starts connecting at once; `issuers()` is empty until the first connection stands. */
export function createSignerBackend(options: SignerBackendOptions): CaBackend {
  let issuers: readonly KnownIssuer[] = []
  let rejected: string | undefined
  const client = new SignerClient({
    ...options,
    onConnect(description) {
      issuers = readIssuers(description)
      options.onConnect?.({ version: description.version, issuers })
    },
  })

  const refreshing = setInterval(() => {
    if (!client.connected) return
    // Without an answer the issuers stay as they are; a new connection describes them again.
    client
      .describe(DESCRIBE_EVERY_MS)
      .then(adoptIssuers, () => undefined)
      .catch(keepIssuers)
  }, DESCRIBE_EVERY_MS).unref()

  function adoptIssuers(description: SignerDescription): void {
    const described = readIssuers(description)
    rejected = undefined
    if (fingerprintOf(described) === fingerprintOf(issuers)) return
    issuers = described
    options.onIssuersChanged?.(issuers)
  }

  function keepIssuers(reason: Error): void {
    if (reason.message === rejected) return
    rejected = reason.message
    options.onIssuersRejected?.(reason)
  }

  /** A reply of the daemon implies that its issuers are known, so a missing one was removed. */
  function requireIssuer(id: string): KnownIssuer {
    const issuer = issuers.find((known) => known.id === id)
    if (issuer) return issuer
    throw new CaError(`the signer has no issuer ${id}`, { retryable: true })
  }

  async function signCertificate(id: string, tbs: Buffer, requester: string, timeoutMs: number): Promise<Buffer> {
    const { payload } = await client.call('signCertificate', { issuer: id, requester }, { timeoutMs, payload: tbs })
    const issuer = requireIssuer(id)
    requireSignature(issuer, tbs, payload)
    return assembleCertificate(tbs, issuer.signatureAlgorithm, payload)
  }

  async function signCrl(id: string, tbs: StreamedTbs, { timeoutMs, requester }: SignOptions): Promise<Buffer> {
    const { meta } = await client.call('beginCrl', { issuer: id, requester, bytes: tbs.length }, { timeoutMs })
    const { upload } = meta
    const verifying = beginVerification(tbs.signatureAlgorithm)
    let offset = 0
    for await (const piece of inPieces(tbs.pieces, CRL_PIECE_BYTES)) {
      await client.call('appendCrl', { upload, offset }, { timeoutMs, payload: piece })
      verifying.update(piece)
      offset += piece.length
    }
    const { payload: signature } = await client.call('signCrl', { upload }, { timeoutMs })
    if (verifying.isBy(requireIssuer(id).publicKey, signature)) return signature
    throw new CaError(`the signature of the CRL by issuer ${id} does not verify`, { retryable: true })
  }

  async function testSign(timeoutMs: number) {
    // The first connection also loads the issuers.
    await client.call('health', {}, { timeoutMs })
    return Promise.all(
      issuers.map(async (issuer) => {
        const startedAt = performance.now()
        const { payload } = await client.call('testSign', { issuer: issuer.id, requester: 'test' }, { timeoutMs })
        requireSignature(issuer, TEST_MESSAGE, payload)
        return { issuer: issuer.id, durationMs: performance.now() - startedAt }
      }),
    )
  }

  /** Omits why a token is away: that may name slots and other keys, and health is public. */
  async function health(timeoutMs: number) {
    const { signing, tokens = [] } = (await client.call('health', {}, { timeoutMs })).meta
    return { signing, tokens: tokens.map(({ issuer, status, since }) => ({ issuer, status, since })) }
  }

  return {
    kind: 'signer',
    issuers: () => issuers,
    outage: () => undefined,
    signCertificate: (id, tbs, { timeoutMs, requester }) => asCaError(signCertificate(id, tbs, requester, timeoutMs)),
    signCrl: (id, tbs, options) => asCaError(signCrl(id, tbs, options)),
    testSign: ({ timeoutMs }) => asCaError(testSign(timeoutMs)),
    unreachable: () => client.failure,
    health: ({ timeoutMs }) => asCaError(health(timeoutMs)),
    close() {
      clearInterval(refreshing)
      return client.close()
    },
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

/** The same bytes in pieces of exactly `octets`, but for the last one. */
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
    throw new CaError(message, { retryable: !(error instanceof SignerRefusal), cause, nameRefusal })
  }
}
