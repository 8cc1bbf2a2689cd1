/**
 * Makes a key pair in a token or a file, and signs one root or request with it.
 *
 * A file is an EncryptedPrivateKeyInfo (RFC 5958 §3) by PBES2 (RFC 8018 §6.2) with PBKDF2 (§5.2) and AES-256-CBC. Node's own
 * export uses only 2,048 iterations. A root key lies offline for ten years, and only its passphrase protects a stolen file.
 */

import {
  createCipheriv,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  pbkdf2,
  randomBytes,
  sign,
} from 'node:crypto'
import { closeSync, fsyncSync, lstatSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import {
  CURVES,
  type Curve,
  parseSpki,
  SIGNATURE_ALGORITHMS,
  type SignatureAlgorithm,
} from '../../src/shared/pki/algorithms.ts'
import { DerReader, TAG } from '../../src/shared/pki/der.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import type { KeyType } from '../config.ts'
import { loadLibrary, type TokenPlace } from '../keys/pkcs11/library.ts'
import { chooseOperation } from '../keys/pkcs11/mechanism.ts'
import type { NewTokenKey } from '../keys/pkcs11/token-session.ts'

export interface NewKey {
  /** DER of the SubjectPublicKeyInfo. */
  spki: Buffer
  /** Location and protection of the key, for the log. */
  facts: Record<string, string>
  sign(algorithm: SignatureAlgorithm, data: Buffer): Promise<Buffer>
  close(): Promise<void>
}

/** @param bits of an RSA key */
export interface KeyShape {
  type: KeyType
  bits: number
}

export interface TokenKeyRequest {
  library: string
  token: TokenPlace
  pin: string
  label: string
  /** Hexadecimal. */
  id: string
}

const CLOSE_MS = 5000
/** First octet of the point (SEC 1 §2.3.3). */
const UNCOMPRESSED = 4

/**
 * The token makes the key: sensitive, not extractable.
 * @throws Error in one sentence, also when the label or the id is taken
 */
export async function makeTokenKey({ type, bits }: KeyShape, request: TokenKeyRequest): Promise<NewKey> {
  if (type === 'Ed25519') throw new Error('keys in a token are RSA or EC here; choose another type')
  const library = await loadLibrary(request.library)
  const token = library.findToken(request.token)
  const session = token.openSession('write')
  token.login(session, request.pin)
  session.requireFree({ label: request.label })
  session.requireFree({ id: request.id })
  const wanted: NewTokenKey = type === 'RSA' ? { kind: 'rsa', bits } : { kind: 'ec', curveOid: CURVES[type].oid }
  const { key, publicKey, isSensitive, isExtractable } = await session.generate(wanted, request)
  const spki = exportSpki(publicKey.kind === 'rsa' ? rsaJwk(publicKey) : ecJwk(type as Curve, publicKey.point))
  const mechanisms = token.mechanisms()
  return {
    spki,
    facts: {
      library: `${request.library} (${library.describe()})`,
      token: `${token.label}, slot ${token.slotId}, ${token.model}, serial number ${token.serialNumber}`,
      key: `label ${request.label}, id ${request.id}`,
      protection: `sensitive ${isSensitive ? 'yes' : 'no'}, extractable ${isExtractable ? 'yes' : 'no'}`,
    },
    async sign(algorithm, data) {
      const operation = chooseOperation(algorithm, parseSpki(spki), mechanisms)
      const { mechanism, input } = operation.prepare(data)
      return operation.finish(await session.sign(mechanism, key, input))
    },
    async close() {
      session.close()
      await library.close(CLOSE_MS)
    },
  }
}

/**
 * Writes PKCS #8 to a new file of mode 600, encrypted under a passphrase if there is one.
 * @throws Error when the file exists
 */
export async function makeFileKey(shape: KeyShape, file: string, passphrase: string | undefined): Promise<NewKey> {
  const { privateKey, publicKey } = await generate(shape)
  const pem =
    passphrase === undefined
      ? (privateKey.export({ format: 'pem', type: 'pkcs8' }) as string)
      : await encryptKey(privateKey, passphrase)
  writeNewFile(file, pem, 0o600)
  return {
    spki: publicKey.export({ format: 'der', type: 'spki' }),
    facts: { key: file, protection: passphrase === undefined ? 'mode 600, not encrypted' : 'mode 600, encrypted' },
    sign: async (algorithm, data) => sign(SIGNATURE_ALGORITHMS[algorithm].hash, data, privateKey),
    close: async () => {},
  }
}

const generatePair = promisify(generateKeyPair)

function generate({ type, bits }: KeyShape): Promise<{ privateKey: KeyObject; publicKey: KeyObject }> {
  if (type === 'RSA') return generatePair('rsa', { modulusLength: bits })
  return type === 'Ed25519' ? generatePair('ed25519') : generatePair('ec', { namedCurve: type })
}

type PublicJwk = { kty: 'RSA'; n: string; e: string } | { kty: 'EC'; crv: string; x: string; y: string }

function exportSpki(jwk: PublicJwk): Buffer {
  return createPublicKey({ key: jwk, format: 'jwk' }).export({ format: 'der', type: 'spki' })
}

function rsaJwk({ modulus, exponent }: { modulus: Buffer; exponent: Buffer }): PublicJwk {
  return { kty: 'RSA', n: modulus.toString('base64url'), e: exponent.toString('base64url') }
}

/**
 * Importing the key checks that the point lies on the curve.
 * @param value CKA_EC_POINT: the DER OCTET STRING of the uncompressed point (PKCS #11 v2.40
 * mechanisms, §2.3.3). Older tokens give the bare point.
 */
function ecJwk(curve: Curve, value: Buffer): PublicJwk {
  const { fieldOctets } = CURVES[curve]
  const length = 1 + 2 * fieldOctets
  const point = value.length === length ? value : new DerReader(value).octetString()
  if (point[0] !== UNCOMPRESSED || point.length !== length) throw new Error('the token gave no uncompressed point')
  const [x, y] = [point.subarray(1, 1 + fieldOctets), point.subarray(1 + fieldOctets)]
  return { kty: 'EC', crv: curve, x: x.toString('base64url'), y: y.toString('base64url') }
}

/**
 * Puts the file on disk before it returns. It is whole before it has its name; until then `.new` follows the name.
 * @throws Error when either file exists: nothing overwrites a key
 */
export function writeNewFile(file: string, content: string | Buffer, mode: number): void {
  const half = `${file}.new`
  let fd: number
  try {
    fd = openSync(half, 'wx', mode)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new Error(`${half}: ${code === 'EEXIST' ? 'exists already' : `cannot be written (${code})`}`, { cause })
  }
  try {
    // `writeFileSync` writes the whole content. On a full disk `writeSync` writes a part and reports
    // that only in its result.
    writeFileSync(fd, content)
    fsyncSync(fd)
    if (lstatSync(file, { throwIfNoEntry: false })) throw new Error(`${file}: exists already`)
    renameSync(half, file)
  } finally {
    closeSync(fd)
    rmSync(half, { force: true })
  }
}

/**
 * OWASP's Password Storage Cheat Sheet requires this of PBKDF2 with HMAC-SHA-256. The signer pays
 * the cost once, when it starts.
 */
const ITERATIONS = 600_000
const SALT_BYTES = 16
const KEY_BYTES = 32
const IV_BYTES = 16

const OID = {
  pbes2: '1.2.840.113549.1.5.13',
  pbkdf2: '1.2.840.113549.1.5.12',
  hmacWithSha256: '1.2.840.113549.2.9',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
} as const

const NOTHING = Buffer.alloc(0)
const deriveKey = promisify(pbkdf2)

/** Returns PEM. Wipes its own buffers with the plain key; the caller owns the KeyObject. */
export async function encryptKey(privateKey: KeyObject, passphrase: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  const iv = randomBytes(IV_BYTES)
  const key = await deriveKey(passphrase, salt, ITERATIONS, KEY_BYTES, 'sha256')
  const plain = privateKey.export({ format: 'der', type: 'pkcs8' })
  try {
    const cipher = createCipheriv('aes-256-cbc', key, iv)
    const encrypted = Buffer.concat([cipher.update(plain), cipher.final()])
    return encodePem('ENCRYPTED PRIVATE KEY', encryptedKeyInfo(salt, iv, encrypted))
  } finally {
    key.fill(0)
    plain.fill(0)
  }
}

function encryptedKeyInfo(salt: Buffer, iv: Buffer, encrypted: Buffer): Buffer {
  return encodeDer((writer) => {
    const algorithm = (oid: string, writeParameters: () => void) =>
      writer.sequence(() => {
        writer.oid(oid)
        writeParameters()
      })
    const derivation = () => {
      writer.octetString(salt)
      writer.unsignedInteger(bigEndian(ITERATIONS))
      // RFC 8018 appendix B.1.2: the parameters are NULL, not absent.
      algorithm(OID.hmacWithSha256, () => writer.primitive(TAG.null, NOTHING))
    }
    writer.sequence(() => {
      algorithm(OID.pbes2, () =>
        writer.sequence(() => {
          algorithm(OID.pbkdf2, () => writer.sequence(derivation))
          algorithm(OID.aes256Cbc, () => writer.octetString(iv))
        }),
      )
      writer.octetString(encrypted)
    })
  })
}

function bigEndian(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
