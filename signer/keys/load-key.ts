/**
 * Loads an issuer's key from a token or a file, after reading its secret. Files are PEM: PKCS #8, SEC 1 or PKCS #1,
 * encrypted or not.
 */

import { createPrivateKey, createSign, type KeyObject, sign } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { oncePerKey } from '../../src/shared/lib/caching.ts'
import { parseSpki, SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import type { KeyConfig } from '../config.ts'
import { openTokenKey } from './pkcs11/key.ts'
import { loadLibrary, type Pkcs11Library } from './pkcs11/library.ts'
import { readPrivateFile, readSecret, type SecretSource } from './secret.ts'
import { type KeyState, poolThreads, type SigningKey, type StreamedSignature } from './signing-key.ts'

export interface IssuerKeyFacts {
  algorithm: SignatureAlgorithm
  /** DER of the SubjectPublicKeyInfo of the issuer certificate. */
  spki: Buffer
  onStateChange(state: KeyState): void
}

/** Loads the keys of one process. Keys in tokens of one PKCS #11 library share it. */
export class KeyLoader {
  readonly #libraries = new Map<string, Promise<Pkcs11Library>>()
  readonly #library = oncePerKey(loadLibrary, this.#libraries)

  /** @throws Error in one sentence */
  async load(config: KeyConfig, secret: string | undefined, issuer: IssuerKeyFacts): Promise<SigningKey> {
    const { file, pkcs11 } = config
    if (pkcs11 === undefined) return loadFileKey({ file: file!, passphrase: secret, algorithm: issuer.algorithm })
    requireType(pkcs11.type, issuer.spki)
    if (pkcs11.login && secret === undefined) {
      throw new Error('the token needs a PIN: set pin_file, pin_env or pin_prompt, or login: false')
    }
    return openTokenKey({
      library: await this.#library(pkcs11.library),
      token: { label: pkcs11.token, slot: pkcs11.slot },
      key: { label: pkcs11.label, id: pkcs11.id },
      pin: pkcs11.login ? secret : undefined,
      sessions: pkcs11.sessions,
      sessionWaitMs: pkcs11.session_wait * 1000,
      ...issuer,
    })
  }

  /** Call it after closing the keys. */
  async close(timeoutMs: number): Promise<void> {
    for (const library of this.#libraries.values()) await (await library).close(timeoutMs)
  }
}

/**
 * Reads passphrase or PIN. Call it for one key at a time, since each may prompt on the terminal.
 * @throws Error
 */
export function readKeySecret(config: KeyConfig): Promise<string | undefined> {
  const [source, what] = secretOf(config)
  return readSecret(source, what)
}

function secretOf(config: KeyConfig): [SecretSource, string] {
  if (config.pkcs11 === undefined) {
    const { file: keyFile, passphrase_file: file, passphrase_env: env, passphrase_prompt: prompt } = config
    return [{ file, env, prompt }, `passphrase of ${keyFile}`]
  }
  const { pin_file: file, pin_env: env, pin_prompt: prompt, token, slot } = config.pkcs11
  return [{ file, env, prompt }, `PIN of token ${token ?? `in slot ${slot}`}`]
}

function requireType(wanted: string | undefined, spki: Buffer): void {
  const { kind } = parseSpki(spki)
  if (wanted === undefined || wanted === kind) return
  throw new Error(`the key is configured as ${wanted}, the issuer certificate holds a key of kind ${kind}`)
}

export interface FileKeyOptions {
  file: string
  /** For an encrypted key. */
  passphrase?: string | undefined
  algorithm: SignatureAlgorithm
}

const MIN_RSA_BITS = 2048

/**
 * True for keys that sign in place: P-256 takes 46 µs and Ed25519 57 µs; the thread pool adds about
 * 30 µs. Slow keys use the pool: P-384 1.2 ms, RSA-2048 0.9 ms, RSA-4096 5 ms.
 */
const isFast = (key: KeyObject): boolean =>
  key.asymmetricKeyType === 'ed25519' || key.asymmetricKeyDetails?.namedCurve === 'prime256v1'

const poolSlots = (): number => Math.max(1, Math.min(poolThreads() - 1, availableParallelism()))

/** @throws Error in one sentence: unreadable, too open, wrong passphrase, wrong kind of key. */
export function loadFileKey({ file, passphrase, algorithm }: FileKeyOptions): SigningKey {
  const key = parseKey(file, readPrivateFile(file), passphrase)
  checkKind(file, key, algorithm)

  const { hash } = SIGNATURE_ALGORITHMS[algorithm]
  const begin = (wanted: SignatureAlgorithm) => beginSignature(key, wanted)
  if (isFast(key)) {
    return { kind: 'file', concurrency: 0, sign: (data) => sign(hash, data, key), begin, close: async () => {} }
  }
  const signInPool = (data: Buffer) =>
    new Promise<Buffer>((resolve, reject) => {
      sign(hash, data, key, (error, signature) => (error ? reject(error) : resolve(signature)))
    })
  return { kind: 'file', concurrency: poolSlots(), sign: signInPool, begin, close: async () => {} }
}

/** Undefined for Ed25519: it hashes its message twice (RFC 8032 §5.1.6), so it needs the whole message. */
function beginSignature(key: KeyObject, algorithm: SignatureAlgorithm): StreamedSignature | undefined {
  const { hash, keyKind } = SIGNATURE_ALGORITHMS[algorithm]
  if (hash === null || key.asymmetricKeyType !== keyKind) return undefined
  const signing = createSign(hash)
  return {
    update: (piece) => void signing.update(piece),
    // Every key signs a CRL in place: CRLs are rare, and the slowest key takes a few milliseconds.
    finish: () => signing.sign(key),
  }
}

function parseKey(file: string, pem: Buffer, passphrase: string | undefined): KeyObject {
  try {
    return createPrivateKey({ key: pem, format: 'pem', ...(passphrase !== undefined && { passphrase }) })
  } catch (cause) {
    // OpenSSL's text differs by version and key form, and says less.
    const encrypted = pem.includes('ENCRYPTED')
    const hint = encrypted
      ? passphrase === undefined
        ? ': it needs a passphrase (passphrase_file, passphrase_env or passphrase_prompt)'
        : ': wrong passphrase?'
      : ''
    throw new Error(`${file}: no private key could be read from it${hint}`, { cause })
  }
}

function checkKind(file: string, key: KeyObject, algorithm: SignatureAlgorithm): void {
  if (key.asymmetricKeyType !== SIGNATURE_ALGORITHMS[algorithm].keyKind) {
    throw new Error(`${file}: holds a key of kind ${key.asymmetricKeyType}, which cannot sign ${algorithm}`)
  }
  const bits = key.asymmetricKeyDetails?.modulusLength ?? MIN_RSA_BITS
  if (bits < MIN_RSA_BITS)
    throw new Error(`${file}: an RSA key of ${bits} bits is too short; use at least ${MIN_RSA_BITS}`)
}
