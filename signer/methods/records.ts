/**
 * Methods that give out what was signed, so that a service can bring back what its database lost, and that report damage.
 *
 * Each look for damaged lines reads the current file and one closed file, two times 8 MiB at most. The next look takes the
 * closed file before that one, so all are read in turn.
 */

import { setImmediate as pause } from 'node:timers/promises'
import * as z from 'zod/v4'
import { boundedArray } from '../../src/shared/lib/bounded.ts'
import { CLOCKS_DIFFER_SECONDS } from '../../src/shared/lib/clocks.ts'
import { sha256Hex } from '../audit/line.ts'
import type { SignedCrls } from '../crl-numbers.ts'
import { issuerKeyOf } from '../issuers.ts'
import { MAX_DECISION_BYTES, MAX_DECISIONS, MAX_NOTED } from '../protocol/methods.ts'
import { SignerRefusal } from '../protocol/signer-errors.ts'
import {
  type Damage,
  decisionRecord,
  type LineTable,
  parseRecordLine,
  type RevocationEntry,
  STREAMS,
  type StreamName,
  sumOf,
  UNDAMAGED,
} from '../records/record.ts'
import { certificateLines, linesAfter, type RecordStream, serialsAfter } from '../records/record-stream.ts'
import { type MethodHandlers, noteEntries, requireIssuer, type SigningService } from '../signing.ts'

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
      const isAhead = ([, seconds]: RevocationEntry) => seconds > now + CLOCKS_DIFFER_SECONDS
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

/** Least time between two looks: each takes 0.2 s of CPU. */
const LOOK_MS = 5_000
/** These take 1 ms. Then signatures have their turn. */
const LINES_AT_ONCE = 64

class DamageSearch {
  readonly #stream: RecordStream
  /** In closed files, by their first sequence number. */
  readonly #found = new Map<number, Damage>()
  #before = Number.POSITIVE_INFINITY

  constructor(stream: RecordStream) {
    this.#stream = stream
  }

  /** @returns all that is known of the files that are there */
  async look(): Promise<Damage> {
    const { closed, cutOff } = this.#stream
    const segment = closed.all.findLast(({ first }) => first < this.#before) ?? closed.newest
    if (segment) {
      this.#before = segment.first
      const { first } = segment
      const unreadable = { lines: 1, first }
      const found = await closed.read(segment).then(damageInClosed, () => unreadable)
      this.#found.set(first, found ?? unreadable)
    }
    const current = await this.#inCurrent()
    for (const first of this.#found.keys())
      if (!closed.all.some((one) => one.first === first)) this.#found.delete(first)
    return sumOf([cutOff, ...this.#found.values(), current])
  }

  /** Nothing where the file was closed meanwhile: the next look reads it as a closed one. */
  async #inCurrent(): Promise<Damage> {
    const { lines } = this.#stream
    const found = await damageIn(lines, () => this.#stream.lines === lines)
    return this.#stream.lines === lines ? sumOf([lines.damage, found]) : UNDAMAGED
  }
}

/** @returns undefined where it cannot be unpacked */
async function damageInClosed(table: LineTable): Promise<Damage | undefined> {
  if (table.count === 0) return undefined
  return sumOf([table.betweenLines, await damageIn(table, () => true)])
}

async function damageIn(table: LineTable, isStillThere: () => boolean): Promise<Damage> {
  let damage = UNDAMAGED
  for (let at = 0; at < table.count; at++) {
    if (at % LINES_AT_ONCE === 0) await pause()
    if (!isStillThere()) break
    if (!parseRecordLine(table.textAt(at))) damage = sumOf([damage, { lines: 1, first: table.keyAt(at).seq }])
  }
  return damage
}

type StreamDamage = Record<StreamName, Damage>

/** @param report is called once for each stream, and again when there is more */
export function damageOf(
  streams: Record<StreamName, RecordStream>,
  report: (stream: string, damage: Damage) => void,
): () => Promise<StreamDamage> {
  const searches = STREAMS.map((name) => ({ name, search: new DamageSearch(streams[name]), reported: 0 }))
  let last: { at: number; found: Promise<StreamDamage> } | undefined
  const look = async () => {
    const found: [string, Damage][] = []
    for (const one of searches) {
      const damage = await one.search.look()
      if (damage.lines > one.reported) report(one.name, damage)
      one.reported = Math.max(one.reported, damage.lines)
      found.push([one.name, damage])
    }
    return Object.fromEntries(found) as StreamDamage
  }
  return () => {
    if (!last || performance.now() - last.at > LOOK_MS) last = { at: performance.now(), found: look() }
    return last.found
  }
}
