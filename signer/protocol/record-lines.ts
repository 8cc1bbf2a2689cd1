/**
 * Reads the records that the signer sends. A later release may have written the files, so members that
 * are not known here are passed over.
 */

import * as z from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'
import { MAX_DECISIONS, MAX_NOTED } from './methods.ts'
import { SignerProtocolError } from './signer-errors.ts'

const Sequence = z.int().min(0)
const IssuerId = z.string().max(64)
const Hex = z.string().regex(/^(?:[0-9a-f]{2}){1,21}$/)
/** SHA-256 of an issuer's name and key identifier. */
const IssuerKey = z.string().regex(/^[0-9a-f]{64}$/)
const CrlNumber = z.string().regex(/^[0-9a-f]{1,40}$/)

/** Lists whose newest number is reported. */
const MOST_LISTS = 4096

/** `url` is the distribution point of a part, and empty for a complete list. `number` is hexadecimal. */
const SignedLists = boundedArray(z.object({ key: IssuerKey, url: z.string().max(2048), number: CrlNumber }), MOST_LISTS)

/** Serial number, Unix seconds, CRLReason. */
const RevokedEntry = z.tuple([Hex, Sequence, z.int().min(0).max(10)])

const CertificateLine = z.object({
  seq: Sequence,
  requester: z.string().max(200),
  certificate: z.base64().max(262_144),
})

const RevocationLine = z.object({
  issuer: IssuerId,
  key: IssuerKey.optional(),
  entries: boundedArray(RevokedEntry, MAX_NOTED),
})

/** A service of a later release may have made them: their reader judges each by itself. */
const DecisionLine = z.object({
  seq: Sequence,
  decisions: boundedArray(z.record(z.string(), z.unknown()), MAX_DECISIONS),
})

export type NotedRevocation = z.infer<typeof RevokedEntry>

/** @throws SignerProtocolError */
export const readLists = (payload: Buffer) => parse(SignedLists, payload.toString('utf8'))
/** @throws SignerProtocolError */
export const readCertificateLines = (payload: Buffer) => linesOf(CertificateLine, payload)
/** @throws SignerProtocolError */
export const readRevocationLines = (payload: Buffer) => linesOf(RevocationLine, payload)
/** @throws SignerProtocolError */
export const readDecisionLines = (payload: Buffer) => linesOf(DecisionLine, payload)

function linesOf<T>(schema: z.ZodType<T>, payload: Buffer): T[] {
  const lines = payload.toString('utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => parse(schema, line))
}

function parse<T>(schema: z.ZodType<T>, text: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new SignerProtocolError('a record of the signer is not JSON', { cause })
  }
  const { success, data, error } = schema.safeParse(value)
  if (success) return data
  const [issue] = error.issues
  throw new SignerProtocolError(`a record of the signer: ${issue?.path.join('.')}: ${issue?.message}`)
}
