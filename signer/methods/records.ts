/** Methods that give out what was signed, so that a service can bring back what its database lost. */

import * as z from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'
import { sha256Hex } from '../audit/line.ts'
import { issuerKeyOf } from '../issuers.ts'
import { noteEntries } from '../noted-revocations.ts'
import { MAX_DECISION_BYTES, MAX_DECISIONS, MAX_NOTED } from '../protocol/methods.ts'
import { SignerRefusal } from '../protocol/signer-errors.ts'
import { damageOf } from '../records/damage.ts'
import { certificateLines, linesAfter, serialsAfter } from '../records/pages.ts'
import { decisionRecord, type RevocationEntry } from '../records/record.ts'
import type { RecordStream } from '../records/record-stream.ts'
import type { SignedCrls } from '../signed-crls.ts'
import { requireIssuer, type SigningService } from '../signing.ts'
import type { MethodHandlers } from './method-handler.ts'

type RecordMethods = Pick<
  MethodHandlers,
  | 'recordState'
  | 'signedSerials'
  | 'signedCertificates'
  | 'signedRevocations'
  | 'noteRevocations'
  | 'noteDecisions'
  | 'signedDecisions'
  | 'recordDamage'
>

/** Serial number of at most 20 octets, Unix seconds, CRLReason (RFC 5280 §5.3.1). */
const Entries = boundedArray(
  z.tuple([z.string().regex(/^(?!00)(?:[0-9a-f]{2}){1,20}$/), z.int().min(0), z.int().min(0).max(10)]),
  MAX_NOTED,
  1,
)

const Decisions = boundedArray(z.record(z.string(), z.unknown()), MAX_DECISIONS, 1)

const kept = ({ first, last }: RecordStream) => ({ first, last })

/** How far the clocks of two hosts may differ. */
const MAX_AHEAD_SECONDS = 300

export function recordMethods(
  service: SigningService,
  signed: SignedCrls,
  warn: (facts: object, sentence: string) => void,
): RecordMethods {
  const { chain, certificates, revocations, decisions } = service.records
  const damage = damageOf(service.records, (stream, { lines, first }) =>
    warn({ stream, lines, first }, 'record files are damaged; compare them with: chancery-signer audit verify'),
  )
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
      const { payload, last, more } = await linesAfter(revocations, after)
      return { meta: { last, more }, payload }
    },
    async noteRevocations({ issuer: id, requester }, payload) {
      const issuer = requireIssuer(service, id)
      const isRecorded = service.recorded.of(issuerKeyOf(issuer))
      const unrecorded = read(Entries, payload, 'a list of [serial, seconds, reason]').filter(
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
    async noteDecisions({ requester }, payload) {
      if (payload.length > MAX_DECISION_BYTES)
        throw new SignerRefusal(`the decisions have more than ${MAX_DECISION_BYTES} octets`)
      const noted = read(Decisions, payload, 'a list of objects')
      const names = [`decisions:${noted.length}`]
      const content = { issuer: '', serial: '', names, sha256: sha256Hex(payload), requester }
      await service.audit.append({ method: 'noteDecisions', ...content }, (place) =>
        decisionRecord(place, requester, noted),
      )
      return { meta: {} }
    },
    async signedDecisions({ after }) {
      const { payload, last, more } = await linesAfter(decisions, after)
      return { meta: { first: decisions.first, last, more }, payload }
    },
    recordDamage: async () => ({ meta: await damage() }),
  }
}

/** @param is what it has to be. @throws SignerRefusal */
function read<T>(schema: z.ZodType<T>, payload: Buffer, is: string): T {
  let value: unknown
  try {
    value = JSON.parse(payload.toString('utf8'))
  } catch (cause) {
    throw new SignerRefusal('what is to be noted is not JSON', { cause })
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new SignerRefusal(`what is to be noted is not ${is}: ${parsed.error.issues[0]?.message}`)
}
