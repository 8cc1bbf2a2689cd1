/** Private keys in PEM files: PKCS #8, SEC 1 or PKCS #1, encrypted or not. */

import { createPrivateKey, createSign, type KeyObject, sign } from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../src/pki/algorithms.ts'
import type { SigningKey, StreamedSignature } from './signing-key.ts'

export interface FileKeyOptions {
  file: string
  /** For an encrypted key; its file is checked like the key's. A final line break does not belong to it. */
  passphraseFile?: string | undefined
  passphraseEnv?: string | undefined
  algorithm: SignatureAlgorithm
}

const MIN_RSA_BITS = 2048

/**
 * Signatures this fast are made in place: (m) P-256 46 µs and Ed25519 57 µs, where the thread pool would add about 30.
 * The others block for long (P-384 1.2 ms, RSA-2048 0.9 ms, RSA-4096 5 ms) and go to the pool.
 */
const isFast = (key: KeyObject): boolean =>
  key.asymmetricKeyType === 'ed25519' || key.asymmetricKeyDetails?.namedCurve === 'prime256v1'

/** Of the pool's threads (4 unless UV_THREADPOOL_SIZE says otherwise) one stays free, so that the audit chain never queues. */
function poolSlots(): number {
  const threads = Number(process.env['UV_THREADPOOL_SIZE']) || 4
  return Math.max(1, Math.min(threads - 1, availableParallelism()))
}

/** @throws Error in one sentence: unreadable, too open, wrong passphrase, wrong kind of key. */
export function loadFileKey({ file, passphraseFile, passphraseEnv, algorithm }: FileKeyOptions): SigningKey {
  const passphrase = readPassphrase(passphraseFile, passphraseEnv)
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

/** Ed25519 hashes its message twice (RFC 8032 §5.1.6), so it needs the whole of it. */
function beginSignature(key: KeyObject, algorithm: SignatureAlgorithm): StreamedSignature | undefined {
  const { hash, keyKind } = SIGNATURE_ALGORITHMS[algorithm]
  if (hash === null || key.asymmetricKeyType !== keyKind) return undefined
  const signing = createSign(hash)
  return {
    update: (piece) => void signing.update(piece),
    // In place, whatever the key: a CRL is signed now and then, and the slowest key takes a few milliseconds.
    finish: () => signing.sign(key),
  }
}

/** The file is opened once, so that what was checked is what is read. */
function readPrivateFile(file: string): Buffer {
  const fd = openSync(file, 'r')
  try {
    const { mode } = fstatSync(fd)
    if ((mode & 0o077) === 0) return readFileSync(fd)
    throw new Error(`${file}: mode ${(mode & 0o777).toString(8)} lets others read it; use 600 or 400`)
  } finally {
    closeSync(fd)
  }
}

function readPassphrase(file: string | undefined, variable: string | undefined): string | undefined {
  if (file !== undefined)
    return readPrivateFile(file)
      .toString('utf8')
      .replace(/\r?\n$/, '')
  if (variable === undefined) return undefined
  const value = process.env[variable]
  if (value === undefined) throw new Error(`the environment variable ${variable} holds no passphrase`)
  return value
}

function parseKey(file: string, pem: Buffer, passphrase: string | undefined): KeyObject {
  try {
    return createPrivateKey({ key: pem, format: 'pem', ...(passphrase !== undefined && { passphrase }) })
  } catch (cause) {
    // The library's text differs by version and key form, and says less.
    const encrypted = pem.includes('ENCRYPTED')
    const hint = encrypted ? (passphrase === undefined ? ': it needs a passphrase' : ': wrong passphrase?') : ''
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
