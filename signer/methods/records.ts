/** Methods that give out what was signed, so that a service can bring back what its database lost. */

import * as z from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'
import { issuerKeyOf } from '../issuers.ts'
import { noteEntries } from '../noted-revocations.ts'
import { MAX_NOTED } from '../protocol/methods.ts'
import { SignerRefusal } from '../protocol/signer-errors.ts'
import { certificateLines, revocationsAfter, serialsAfter } from '../records/pages.ts'
import type { RevocationEntry } from '../records/record.ts'
import type { RecordStream } from '../records/record-stream.ts'
import type { SignedCrls } from '../signed-crls.ts'
import { requireIssuer, type SigningService } from '../signing.ts'
import type { MethodHandlers } from './method-handler.ts'

type RecordMethods = Pick<
  MethodHandlers,
  'recordState' | 'signedSerials' | 'signedCertificates' | 'signedRevocations' | 'noteRevocations'
>

/** Serial number of at most 20 octets, Unix seconds, CRLReason (RFC 5280 §5.3.1). */
const Entries = boundedArray(
  z.tuple([z.string().regex(/^(?!00)(?:[0-9a-f]{2}){1,20}$/), z.int().min(0), z.int().min(0).max(10)]),
  MAX_NOTED,
  1,
)

const kept = ({ first, last }: RecordStream) => ({ first, last })

/** How far the clocks of two hosts may differ. */
const MAX_AHEAD_SECONDS = 300

export function recordMethods(
  service: SigningService,
  signed: SignedCrls,
  warn: (facts: object, sentence: string) => void,
): RecordMethods {
  const { chain, certificates, revocations } = service.records
  return {
    recordState() {
      return {
        meta: { chain, certificates: kept(certificates), revocations: kept(revocations) },
        payload: Buffer.from(signed.text),
      }
    },
    async signedSerials({ after }) {
      const { payload, last, more } = await serialsAfter(certificates, after)
      return { meta: { last, more }, payload }
    },
    async signedCertificates({ sequences }) {
      const { payload, more } = await certificateLines(certificates, sequences)
      return { meta: { more }, payload }
    },
    async signedRevocations({ after }) {
      const { payload, last, more } = await revocationsAfter(revocations, after)
      return { meta: { last, more }, payload }
    },
    async noteRevocations({ issuer: id, requester }, payload) {
      const issuer = requireIssuer(service, id)
      const isRecorded = service.recorded.of(issuerKeyOf(issuer))
      const unrecorded = readEntries(payload).filter(
        ([serial, , reason]) => !isRecorded(Buffer.from(serial, 'hex'), reason),
      )
      // What is recorded once is not recorded again, so a time that has not come would stay.
      const now = Math.floor(Date.now() / 1000)
      const isAhead = ([, seconds]: RevocationEntry) => seconds > now + MAX_AHEAD_SECONDS
      const entries = unrecorded.map((one): RevocationEntry => (isAhead(one) ? [one[0], now, one[2]] : one))
      const serials = unrecorded.filter(isAhead).map(([serial]) => serial)
      if (serials.length > 0)
        warn(
          { issuer: id, requester, serials: serials.slice(0, 20) },
          'revocations of a time ahead of the clock; they are noted as of now',
        )
      if (entries.length > 0) await noteEntries(service, { issuer, requester }, entries)
      return { meta: {} }
    },
  }
}

function readEntries(payload: Buffer): RevocationEntry[] {
  let value: unknown
  try {
    value = JSON.parse(payload.toString('utf8'))
  } catch (cause) {
    throw new SignerRefusal('the revocations are not JSON', { cause })
  }
  const parsed = Entries.safeParse(value)
  if (parsed.success) return parsed.data
  throw new SignerRefusal(
    `the revocations are not a list of [serial, seconds, reason]: ${parsed.error.issues[0]?.message}`,
  )
}
