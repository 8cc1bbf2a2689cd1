/**
 * Errors on the wire of the signer protocol. A reply that is no result is one of three:
 *
 * - `refused`: the content is out of policy. Asking again is pointless.
 * - `unavailable`: busy, draining, too late, or the audit log is down. Asking again is right.
 * - `protocolError`: the two ends disagree about the protocol.
 */

import { z } from 'zod/v4'
import { NAME_REFUSAL, SignerNameRefusal, SignerProtocolError, SignerRefusal, SignerUnavailable } from './errors.ts'
import { decodeMeta, encodeFrame, type Frame, KIND } from './frames.ts'

const ErrorMeta = z.strictObject({ message: z.string() })

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
