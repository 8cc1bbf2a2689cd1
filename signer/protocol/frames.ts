/**
 * The frames of the signer protocol. The daemon and its clients share the files of this folder.
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
 */

import * as z from 'zod/v4'
import {
  NAME_REFUSAL,
  SHUTTING_DOWN,
  SignerNameRefusal,
  SignerProtocolError,
  SignerRefusal,
  SignerStopping,
  SignerUnavailable,
} from './signer-errors.ts'

/** `sun_path` of Linux without its final zero (unix(7)). The kernel cuts off a longer path silently. */
export const MAX_SOCKET_PATH_BYTES = 107

/** Bytes of a frame after its length field. A TBSCertificate with 100 long names has about 30 KiB. */
export const DEFAULT_MAX_FRAME_BYTES = 1024 * 1024

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

interface FrameFields {
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
   * Calls `onFrame` for each frame that `chunk` completes. Frames are views: copy bytes that must outlive the turn.
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

const ErrorMeta = z.strictObject({ message: z.string() })

const ERROR_KINDS = [
  [SignerRefusal, KIND.refused],
  [SignerUnavailable, KIND.unavailable],
  [SignerProtocolError, KIND.protocolError],
] as const

/**
 * The frame that reports `error` to a client. An unknown error becomes `unavailable`, and its text stays in the log.
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
  if (type === SignerUnavailable && message === SHUTTING_DOWN) return new SignerStopping()
  return new type(message)
}
