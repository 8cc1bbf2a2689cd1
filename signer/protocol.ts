/**
 * The signer protocol: frames, handshake, methods and errors. The daemon and its clients share only
 * this file.
 *
 * A connection is a Unix stream socket. It carries frames of one form, with big-endian integers:
 *
 *     u32 length     of everything after this field
 *     u8  kind       see KIND
 *     u32 id         chosen by the client, repeated in the reply; 0 in the handshake
 *     u8  method     code of the method in a request, otherwise 0
 *     u32 timeoutMs  how long the client will wait, in a request; otherwise 0
 *     u16 metaLength
 *     meta           JSON object in UTF-8, described by a strict schema of the method
 *     payload        bytes: a TBSCertificate, a signature, certificates
 *
 * Payloads are never base64. Encoding a request costs 2 µs, cutting a frame from the stream 1 µs,
 * parsing and checking its meta part 2 µs.
 *
 * Handshake. The server accepts nothing else before, and the secret never crosses the socket:
 *
 * 1. The server sends `hello` with a nonce.
 * 2. The client answers `proof`: its own nonce, and an HMAC-SHA-256 over both nonces under the
 *    shared secret.
 * 3. The server answers `welcome` with its own HMAC. Its label differs, so neither HMAC can be
 *    reflected.
 *
 * Then the client may pipeline requests; replies come in any order. A reply is a result or one of
 * three errors:
 *
 * - `refused`: the content is out of policy. Asking again is pointless.
 * - `unavailable`: busy, draining, too late, or the audit log is down. Asking again is right.
 * - `protocolError`: the two ends disagree about the protocol.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { z } from 'zod/v4'
import { describeFileError } from '../src/shared/lib/file-error.ts'

const PROTOCOL_VERSION = 1

/**
 * `sun_path` of Linux without its final zero (unix(7)). The kernel cuts off a longer path silently.
 */
export const MAX_SOCKET_PATH_BYTES = 107

/**
 * Exit code of the daemon after a token refused its PIN. A parent must not restart the daemon by
 * itself.
 */
export const PIN_REFUSED_EXIT_CODE = 3

/**
 * Bytes of a frame after its length field. A TBSCertificate with 100 long names has about 30 KiB.
 */
export const DEFAULT_MAX_FRAME_BYTES = 1024 * 1024
/**
 * Size of one piece of a TBSCertList. Reading and hashing 64 KiB blocks the daemon for 2 to 3 ms.
 */
export const CRL_PIECE_BYTES = 64 * 1024
/** Limits the memory that a peer without the secret can occupy. */
export const HANDSHAKE_MAX_FRAME_BYTES = 256

export const KIND = {
  hello: 1,
  proof: 2,
  welcome: 3,
  request: 16,
  result: 17,
  refused: 18,
  unavailable: 19,
  protocolError: 20,
} as const
export type FrameKind = (typeof KIND)[keyof typeof KIND]
const KINDS: ReadonlySet<number> = new Set(Object.values(KIND))

/**
 * What `testSign` signs. Every X.509 structure starts with 0x30; this text starts with a letter.
 */
export const TEST_MESSAGE: Buffer = Buffer.from('chancery-signer test signature; not a certificate, not a CRL', 'ascii')

// Names appear in log and audit lines: short, and without control characters.
const IssuerId = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
const Requester = z.string().regex(/^[\x20-\x7e]{1,200}$/)
const UploadId = z.string().regex(/^[0-9a-f]{32}$/)
const Nothing = z.strictObject({})
const Count = z.int().min(0)

/**
 * Every method with its code on the wire and the strict schemas of its meta parts. The payloads:
 *
 * - `signCertificate` takes the DER of a TBSCertificate and returns the signature value.
 * - `beginCrl` announces a TBSCertList, which can have hundreds of megabytes.
 * - `appendCrl` carries its next piece. The server replies after hashing, so other requests run
 *   between pieces. Repeating a piece changes nothing.
 * - `signCrl` returns the signature value; repeating it changes nothing.
 * - `testSign` returns a signature over TEST_MESSAGE.
 * - `describe` returns the certificates of all issuers in a row. `chain` gives the length of each
 *   certificate; `alternates` gives the lengths for the further chains, which follow.
 */
export const METHODS = {
  describe: {
    code: 1,
    params: Nothing,
    result: z.strictObject({
      version: z.string(),
      issuers: z.array(
        z.strictObject({
          id: IssuerId,
          algorithm: z.string(),
          chain: z.array(Count).min(1),
          alternates: z.array(z.array(Count).min(1)).optional(),
        }),
      ),
    }),
  },
  health: {
    code: 2,
    params: Nothing,
    result: z.strictObject({
      signing: z.boolean(),
      uptimeSeconds: z.number().min(0),
      signatures: Count,
      refusals: Count,
      inFlight: Count,
      connections: Count,
      auditSequence: Count,
      auditSyncs: Count,
      lastError: z.strictObject({ at: z.string(), message: z.string() }).optional(),
      tokens: z
        .array(
          z.strictObject({
            issuer: IssuerId,
            status: z.enum(['ready', 'away', 'refused']),
            since: z.string(),
            reason: z.string().optional(),
          }),
        )
        .optional(),
    }),
  },
  signCertificate: {
    code: 3,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: Nothing,
  },
  testSign: {
    code: 4,
    params: z.strictObject({ issuer: IssuerId, requester: Requester }),
    result: z.strictObject({ durationMs: z.number().min(0) }),
  },
  beginCrl: {
    code: 5,
    params: z.strictObject({ issuer: IssuerId, requester: Requester, bytes: z.int().min(1) }),
    result: z.strictObject({ upload: UploadId }),
  },
  appendCrl: {
    code: 6,
    params: z.strictObject({ upload: UploadId, offset: Count }),
    result: z.strictObject({ received: Count }),
  },
  signCrl: {
    code: 7,
    params: z.strictObject({ upload: UploadId }),
    result: Nothing,
  },
} as const

export type MethodName = keyof typeof METHODS
export type MethodParams<M extends MethodName> = z.infer<(typeof METHODS)[M]['params']>
export type MethodResult<M extends MethodName> = z.infer<(typeof METHODS)[M]['result']>

const METHOD_BY_CODE: ReadonlyMap<number, MethodName> = new Map(
  Object.entries(METHODS).map(([name, { code }]) => [code, name as MethodName]),
)

export function methodOfCode(code: number): MethodName | undefined {
  return METHOD_BY_CODE.get(code)
}

/** The content is out of policy. The same request will be refused again. */
export class SignerRefusal extends Error {
  override readonly name = 'SignerRefusal'
}

/**
 * Marks the message of a SignerNameRefusal. A front of the previous release treats it as an
 * ordinary refusal.
 */
const NAME_REFUSAL = 'name not allowed: '

/** The structure is right, but this CA does not certify one of its names. */
export class SignerNameRefusal extends SignerRefusal {
  /** Says which name, and why. */
  readonly reason: string

  constructor(reason: string) {
    super(NAME_REFUSAL + reason)
    this.reason = reason
  }
}

/** Busy, draining, away or too late. The same request may succeed later. */
export class SignerUnavailable extends Error {
  override readonly name = 'SignerUnavailable'
}

/** The other end broke the protocol of this file. */
export class SignerProtocolError extends Error {
  override readonly name = 'SignerProtocolError'
}

/** The two ends hold different secrets. Asking again fails until an operator corrects one. */
export class SecretMismatch extends SignerProtocolError {
  constructor() {
    super(
      'the signer does not hold the same secret as this service; compare the files that secret_file names on either side',
    )
  }
}

const ErrorMeta = z.strictObject({ message: z.string() })

export interface Frame {
  kind: FrameKind
  id: number
  method: number
  timeoutMs: number
  /** The JSON text; parsed by `decodeMeta` with the schema that fits. */
  meta: Buffer
  payload: Buffer
}

const LENGTH_BYTES = 4
const HEADER_BYTES = 12
const EMPTY = Buffer.alloc(0)
const NO_META = '{}'

export interface FrameFields {
  kind: FrameKind
  id?: number
  method?: number
  timeoutMs?: number
  meta?: object | undefined
  payload?: Uint8Array | undefined
}

/** @throws RangeError when a field does not fit; the schemas keep callers within the limits. */
export function encodeFrame({ kind, id = 0, method = 0, timeoutMs = 0, meta, payload = EMPTY }: FrameFields): Buffer {
  const text = meta === undefined ? NO_META : JSON.stringify(meta)
  const metaLength = Buffer.byteLength(text)
  const length = HEADER_BYTES + metaLength + payload.length
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + length)
  frame.writeUInt32BE(length, 0)
  frame.writeUInt8(kind, 4)
  frame.writeUInt32BE(id, 5)
  frame.writeUInt8(method, 9)
  frame.writeUInt32BE(timeoutMs, 10)
  frame.writeUInt16BE(metaLength, 14)
  frame.write(text, LENGTH_BYTES + HEADER_BYTES)
  frame.set(payload, LENGTH_BYTES + HEADER_BYTES + metaLength)
  return frame
}

/** @throws SignerProtocolError */
function decodeFrame(body: Buffer): Frame {
  const kind = body.readUInt8(0)
  if (!KINDS.has(kind)) throw new SignerProtocolError(`unknown frame kind ${kind}`)
  const metaEnd = HEADER_BYTES + body.readUInt16BE(10)
  if (metaEnd > body.length) throw new SignerProtocolError('meta part reaches beyond its frame')
  return {
    kind: kind as FrameKind,
    id: body.readUInt32BE(1),
    method: body.readUInt8(5),
    timeoutMs: body.readUInt32BE(6),
    meta: body.subarray(HEADER_BYTES, metaEnd),
    payload: body.subarray(metaEnd),
  }
}

/**
 * Cuts a byte stream into frames. It joins the pieces of a frame once, so a peer that sends single
 * bytes costs no more than others.
 */
export class FrameReader {
  maxFrameBytes: number
  #chunks: Buffer[] = []
  #buffered = 0
  #needed = LENGTH_BYTES

  constructor(maxFrameBytes: number) {
    this.maxFrameBytes = maxFrameBytes
  }

  /**
   * Calls `onFrame` for each frame that `chunk` completes. Frames are views: copy bytes that must
   * outlive the turn.
   * @throws SignerProtocolError; the stream is then out of step and must be closed.
   */
  push(chunk: Buffer, onFrame: (frame: Frame) => void): void {
    this.#chunks.push(chunk)
    this.#buffered += chunk.length
    if (this.#buffered < this.#needed) return

    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#buffered)
    let offset = 0
    this.#needed = LENGTH_BYTES
    while (bytes.length - offset >= LENGTH_BYTES) {
      const length = this.#checkedLength(bytes.readUInt32BE(offset))
      const end = offset + LENGTH_BYTES + length
      if (end > bytes.length) {
        this.#needed = LENGTH_BYTES + length
        break
      }
      onFrame(decodeFrame(bytes.subarray(offset + LENGTH_BYTES, end)))
      offset = end
    }
    this.#chunks = offset < bytes.length ? [bytes.subarray(offset)] : []
    this.#buffered = bytes.length - offset
  }

  #checkedLength(length: number): number {
    if (length > this.maxFrameBytes) {
      throw new SignerProtocolError(`frame of ${length} bytes; at most ${this.maxFrameBytes} are accepted`)
    }
    if (length < HEADER_BYTES) throw new SignerProtocolError(`frame of ${length} bytes is shorter than its header`)
    return length
  }
}

/** Parses the meta part of a frame with the schema of its method. @throws SignerProtocolError */
export function decodeMeta<T>(schema: z.ZodType<T>, meta: Buffer): T {
  let value: unknown
  try {
    value = JSON.parse(meta.toString('utf8'))
  } catch (cause) {
    throw new SignerProtocolError('meta part is not JSON', { cause })
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  throw new SignerProtocolError(`meta part: ${issue?.path.join('.') || 'object'}: ${issue?.message ?? 'invalid'}`)
}

const ERROR_KINDS = [
  [SignerRefusal, KIND.refused],
  [SignerUnavailable, KIND.unavailable],
  [SignerProtocolError, KIND.protocolError],
] as const

/**
 * The frame that reports `error` to a client. An unknown error becomes `unavailable`, and its text
 * stays in the log.
 */
export function encodeError(id: number, error: unknown): Buffer {
  for (const [type, kind] of ERROR_KINDS) {
    if (error instanceof type) return encodeFrame({ kind, id, meta: { message: error.message.slice(0, 1000) } })
  }
  return encodeFrame({ kind: KIND.unavailable, id, meta: { message: 'internal error of the signer; see its log' } })
}

/**
 * The error that a reply carries, or undefined for a frame of another kind.
 * @throws SignerProtocolError
 */
export function decodeError(frame: Frame): Error | undefined {
  const type = ERROR_KINDS.find(([, kind]) => kind === frame.kind)?.[0]
  if (!type) return undefined
  const { message } = decodeMeta(ErrorMeta, frame.meta)
  if (type === SignerRefusal && message.startsWith(NAME_REFUSAL))
    return new SignerNameRefusal(message.slice(NAME_REFUSAL.length))
  return new type(message)
}

export const NONCE_BYTES = 32
const MIN_SECRET_BYTES = 32
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

export type Side = 'client' | 'server'

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

/**
 * Reads the shared secret. The group may read it, because the two programs may run as two users.
 * @throws Error in one sentence when it is unreadable, short, or open to others than owner and
 * group.
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
    const secret = readFileSync(fd)
    if (secret.length >= MIN_SECRET_BYTES) return secret
    throw new Error(`${file}: ${secret.length} bytes are too few for a secret; use at least ${MIN_SECRET_BYTES}`)
  } finally {
    closeSync(fd)
  }
}
