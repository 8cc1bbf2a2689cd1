/**
 * The handshake of the signer protocol. The server accepts nothing else before, and the secret never
 * crosses the socket:
 *
 * 1. The server sends `hello` with a nonce.
 * 2. The client answers `proof`: its own nonce, and an HMAC-SHA-256 over both nonces under the
 *    shared secret.
 * 3. The server answers `welcome` with its own HMAC. Its label differs, so neither HMAC can be
 *    reflected.
 *
 * Then the client may pipeline requests; replies come in any order.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import * as z from 'zod/v4'
import { describeFileError } from '../../src/shared/lib/errors.ts'
import { secretIn } from '../../src/shared/lib/secret-box.ts'
import { decodeError, decodeMeta, encodeFrame, type Frame, KIND } from './frames.ts'
import { SecretMismatch, SignerProtocolError } from './signer-errors.ts'

const MIN_SECRET_BYTES = 32

/**
 * Reads the shared secret. The group may read it, because the two programs may run as two users.
 * @throws Error in one sentence when it is unreadable, short, or open to others than owner and group.
 */
export function readSharedSecret(file: string): Buffer {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  try {
    const stats = fstatSync(fd)
    if (!stats.isFile()) throw new Error(`${file}: is not a file`)
    const { mode } = stats
    if ((mode & 0o037) !== 0) {
      throw new Error(`${file}: mode ${(mode & 0o777).toString(8)} is too open for a secret; use 600 or 640`)
    }
    const secret = secretIn(readFileSync(fd))
    if (secret.length >= MIN_SECRET_BYTES) return secret
    throw new Error(`${file}: ${secret.length} bytes are too few for a secret; use at least ${MIN_SECRET_BYTES}`)
  } finally {
    closeSync(fd)
  }
}

const PROTOCOL_VERSION = 1

/** Limits the memory that a peer without the secret can occupy. */
export const HANDSHAKE_MAX_FRAME_BYTES = 256

export const NONCE_BYTES = 32
const MAC_BYTES = 32

const HelloMeta = z.strictObject({ protocol: z.int() })

/** First frame of the server: its protocol version and its nonce. */
export function encodeHello(serverNonce: Buffer): Buffer {
  return encodeFrame({ kind: KIND.hello, meta: { protocol: PROTOCOL_VERSION }, payload: serverNonce })
}

/** @returns the server's nonce. @throws SignerProtocolError when it speaks another version. */
export function decodeHello(frame: Frame): Buffer {
  if (frame.kind !== KIND.hello) throw new SignerProtocolError('the signer did not open with hello')
  const { protocol } = decodeMeta(HelloMeta, frame.meta)
  if (protocol !== PROTOCOL_VERSION) {
    throw new SignerProtocolError(`the signer speaks protocol ${protocol}, this client ${PROTOCOL_VERSION}`)
  }
  if (frame.payload.length !== NONCE_BYTES) throw new SignerProtocolError('hello carries no nonce')
  return Buffer.from(frame.payload)
}

type Side = 'client' | 'server'

/** Proves knowledge of the shared secret. The MAC covers both nonces, the side and the version. */
function handshakeMac(secret: Buffer, side: Side, serverNonce: Buffer, clientNonce: Buffer): Buffer {
  const label = `chancery-signer handshake v${PROTOCOL_VERSION} ${side}\0`
  return createHmac('sha256', secret).update(label).update(serverNonce).update(clientNonce).digest()
}

export function encodeProof(secret: Buffer, serverNonce: Buffer, clientNonce: Buffer): Buffer {
  const mac = handshakeMac(secret, 'client', serverNonce, clientNonce)
  return encodeFrame({ kind: KIND.proof, payload: Buffer.concat([clientNonce, mac]) })
}

/** The daemon's message. A client that receives it throws SecretMismatch. */
const WRONG_PROOF = 'handshake failed: the client does not hold the same secret'

/** Checks the client's proof. @returns the client's nonce. @throws SignerProtocolError */
export function checkProof(secret: Buffer, serverNonce: Buffer, frame: Frame): Buffer {
  if (frame.kind !== KIND.proof) throw new SignerProtocolError('handshake first')
  if (frame.payload.length !== NONCE_BYTES + MAC_BYTES) throw new SignerProtocolError('proof has the wrong length')
  const clientNonce = Buffer.from(frame.payload.subarray(0, NONCE_BYTES))
  const mac = handshakeMac(secret, 'client', serverNonce, clientNonce)
  if (!timingSafeEqual(mac, frame.payload.subarray(NONCE_BYTES))) {
    throw new SignerProtocolError(WRONG_PROOF)
  }
  return clientNonce
}

export function encodeWelcome(secret: Buffer, serverNonce: Buffer, clientNonce: Buffer): Buffer {
  return encodeFrame({ kind: KIND.welcome, payload: handshakeMac(secret, 'server', serverNonce, clientNonce) })
}

/** Checks the server's proof. @throws SecretMismatch, SignerProtocolError */
export function checkWelcome(secret: Buffer, serverNonce: Buffer, clientNonce: Buffer, frame: Frame): void {
  const refused = decodeError(frame)
  if (refused) throw refused.message === WRONG_PROOF ? new SecretMismatch() : refused
  const mac = handshakeMac(secret, 'server', serverNonce, clientNonce)
  const proven =
    frame.kind === KIND.welcome && frame.payload.length === MAC_BYTES && timingSafeEqual(mac, frame.payload)
  if (!proven) throw new SecretMismatch()
}
