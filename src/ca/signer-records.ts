/**
 * The signer's records: certificates and revocations in the order of its audit chain, and numbers of CRLs; and which databases
 * use the signer.
 */

import { MAX_CERTIFICATES } from '../../signer/protocol/methods.ts'
import {
  type NotedRevocation,
  readCertificateLines,
  readDecisionLines,
  readLists,
  readRevocationLines,
} from '../../signer/protocol/record-lines.ts'
import { SignerProtocolError } from '../../signer/protocol/signer-errors.ts'
import type { SignerClient } from './signer-client.ts'

/** Numbers of lines; 0 where there is none. */
interface Span {
  /** The lowest that is still kept. */
  first: number
  /** The newest on disk. */
  last: number
}

/** The newest CRL number that was signed for a distribution point. */
interface SignedListNumber {
  /** `issuerKeyOf`, in hexadecimal. */
  issuerKey: string
  /** Empty for the complete list. */
  url: string
  number: bigint
}

export interface RecordState {
  /** Identity of the audit chain, in hexadecimal. */
  chain: string
  certificates: Span
  revocations: Span
  lists: readonly SignedListNumber[]
}

export interface SerialPage {
  sequences: readonly number[]
  /** In lower-case hexadecimal, beside their sequences. */
  serialNumbers: readonly string[]
  /** When each was signed, in Unix seconds. */
  signedAt: readonly number[]
  last: number
  more: boolean
}

export interface RecordedCertificate {
  sequence: number
  requester: string
  der: Buffer
}

interface RevocationPage {
  lines: readonly RecordedRevocations[]
  last: { seq: number; part: number }
  more: boolean
}

export interface RecordedRevocations {
  /** The signer's name of the issuer, and `issuerKeyOf` in hexadecimal where the signer has written it down. */
  issuerId: string
  issuerKey: string | undefined
  entries: readonly { serialNumber: string; revokedAt: Date; reason: number }[]
}

export { MAX_DECISION_BYTES, MAX_DECISIONS } from '../../signer/protocol/methods.ts'
export type { NotedRevocation }

/** Decisions of one line of the chain. */
interface RecordedDecisions {
  sequence: number
  decisions: readonly Readonly<Record<string, unknown>>[]
}

interface DecisionPage {
  /** Number of the oldest line that is kept. */
  first: number
  lines: readonly RecordedDecisions[]
  last: { seq: number; part: number }
  more: boolean
}

/** Lines that cannot be read. `first`: number of the first in the audit chain; 0 for none. */
export type RecordDamage = Record<'certificates' | 'revocations' | 'decisions', { lines: number; first: number }>

/** @throws SignerUnavailable, SignerRefusal, SignerProtocolError */
export interface SignerRecords {
  /** Undefined from a signer of an earlier release, which keeps no records. */
  state(): Promise<RecordState | undefined>
  /** Serial numbers of the certificates signed after a line. */
  serials(after: number): Promise<SerialPage>
  /** Certificates of these lines, in ascending order; those that are kept no longer are left out. */
  certificates(sequences: readonly number[]): Promise<RecordedCertificate[]>
  revocations(after: { seq: number; part: number }): Promise<RevocationPage>
  /**
   * Tells of revocations that the database has committed, at most MAX_NOTED.
   * @returns false when the signer keeps no records
   */
  note(issuerId: string, entries: readonly NotedRevocation[], requester: string, timeoutMs: number): Promise<boolean>
  /** Undefined from a signer of an earlier release, which keeps none. */
  decisions(after: { seq: number; part: number }): Promise<DecisionPage | undefined>
  /**
   * Tells of decisions that the database has committed.
   * @param payload a JSON list of at most MAX_DECISIONS objects in MAX_DECISION_BYTES
   * @returns false when the signer keeps none
   */
  noteDecisions(payload: Buffer, requester: string, timeoutMs: number): Promise<boolean>
  /** The damage in the files that the signer has read; each call makes it read further. Undefined from an earlier release. */
  damage(): Promise<RecordDamage | undefined>
  /**
   * Says which database the service works on, and asks for others.
   * @param how.remember false for a command, which only asks
   * @returns undefined from a signer of an earlier release
   */
  announce(own: DatabasePlace, how: { requester: string; remember: boolean }): Promise<SignerUse | undefined>
}

/** The signer may read a compressed file first. */
const TIMEOUT_MS = 10_000
const SEQUENCE_BYTES = 6
const LENGTH_AT = SEQUENCE_BYTES + 4

export function signerRecords(client: Pick<SignerClient, 'call'>): SignerRecords {
  const limit = { timeoutMs: TIMEOUT_MS }

  async function certificates(sequences: readonly number[]): Promise<RecordedCertificate[]> {
    const found: RecordedCertificate[] = []
    let wanted = sequences
    while (wanted.length > 0) {
      const asked = { sequences: wanted.slice(0, MAX_CERTIFICATES) }
      const { meta, payload } = await client.call('signedCertificates', asked, limit)
      const lines = readCertificateLines(payload)
      for (const { seq, requester, certificate } of lines)
        found.push({ sequence: seq, requester, der: Buffer.from(certificate, 'base64') })
      const readUntil = meta.more ? lines.at(-1)?.seq : asked.sequences.at(-1)
      if (readUntil === undefined) throw new SignerProtocolError('a page of certificates is empty and not the last')
      wanted = wanted.filter((sequence) => sequence > readUntil)
    }
    return found
  }

  return {
    state: () =>
      ifKept(async () => {
        const { meta, payload } = await client.call('recordState', {}, limit)
        const lists = readLists(payload).map(({ key, url, number }) => ({
          issuerKey: key,
          url,
          number: BigInt(`0x${number}`),
        }))
        return { ...meta, lists }
      }),
    async serials(after) {
      const { meta, payload } = await client.call('signedSerials', { after }, limit)
      return { ...meta, ...readSerials(payload) }
    },
    certificates,
    async revocations(after) {
      const { meta, payload } = await client.call('signedRevocations', { after }, limit)
      const lines = readRevocationLines(payload).map(({ issuer, key, entries }) => ({
        issuerId: issuer,
        issuerKey: key,
        entries: entries.map(([serialNumber, seconds, reason]) => ({
          serialNumber,
          revokedAt: new Date(seconds * 1000),
          reason,
        })),
      }))
      return { ...meta, lines }
    },
    async note(issuer, entries, requester, timeoutMs) {
      const payload = Buffer.from(JSON.stringify(entries))
      const reply = await ifKept(() => client.call('noteRevocations', { issuer, requester }, { timeoutMs, payload }))
      return reply !== undefined
    },
    decisions: (after) =>
      ifKept(async () => {
        const { meta, payload } = await client.call('signedDecisions', { after }, limit)
        const lines = readDecisionLines(payload).map(({ seq, decisions }) => ({ sequence: seq, decisions }))
        return { ...meta, lines }
      }),
    async noteDecisions(payload, requester, timeoutMs) {
      const reply = await ifKept(() => client.call('noteDecisions', { requester }, { timeoutMs, payload }))
      return reply !== undefined
    },
    async announce({ database, incarnation }, how) {
      const reply = await ifKept(() => client.call('announceDatabase', { database, incarnation, ...how }, limit))
      return reply && { others: reply.meta.others, isSettled: reply.meta.settled }
    },
    damage: async () => (await ifKept(() => client.call('recordDamage', {}, limit)))?.meta,
  }
}

/** An earlier release refuses the request's number. */
async function ifKept<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof SignerProtocolError && error.message.startsWith('unknown method')) return undefined
    throw error
  }
}

/** @throws SignerProtocolError */
function readSerials(payload: Buffer): Pick<SerialPage, 'sequences' | 'serialNumbers' | 'signedAt'> {
  const sequences: number[] = []
  const serialNumbers: string[] = []
  const signedAt: number[] = []
  for (let at = 0; at < payload.length; ) {
    const start = at + LENGTH_AT + 1
    const end = start + (payload[at + LENGTH_AT] ?? 0)
    if (end > payload.length || end === start) throw new SignerProtocolError('a page of serial numbers is cut off')
    sequences.push(payload.readUIntBE(at, SEQUENCE_BYTES))
    signedAt.push(payload.readUInt32BE(at + SEQUENCE_BYTES))
    serialNumbers.push(payload.toString('hex', start, end))
    at = end
  }
  return { sequences, serialNumbers, signedAt }
}

/** The signer writes down the requester of a certificate, so that a database that has lost it can have it back. */
export interface SigningRequester {
  certificateId: string
  /** Both are absent for a certificate of the service itself. */
  orderId: string | undefined
  accountId: string | undefined
}

export function renderRequester({ certificateId, orderId, accountId }: SigningRequester): string {
  const whose = orderId !== undefined && accountId !== undefined ? `order ${orderId} account ${accountId}` : 'self'
  return `${whose} certificate ${certificateId}`
}

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const FORM = new RegExp(`^(?:order (${UUID}) account (${UUID})|self) certificate (${UUID})$`)

/** @returns undefined for a text of another form, as earlier releases and other programs write it */
export function parseRequester(text: string): SigningRequester | undefined {
  const [, orderId, accountId, certificateId] = FORM.exec(text) ?? []
  return certificateId === undefined ? undefined : { certificateId, orderId, accountId }
}

/** A database that uses the signer, as its service announces it. */
export interface DatabasePlace {
  /** Its id: a copy has the same. */
  database: string
  /** Names server, timeline and database. A copy has another one (src/store/incarnation.ts). */
  incarnation: string
}

export interface SignerUse {
  others: readonly (DatabasePlace & { requester: string })[]
  /** False while another one may yet turn out to be there. */
  isSettled: boolean
}

export const SHARED = 'another database uses this signer'
export const PART_THEM = 'part them as docs/operations/failover.md#another-database-at-the-same-signer says'

/** For people. */
export const describeOthers = (own: DatabasePlace, { others }: SignerUse): string =>
  others
    .map(({ database, incarnation, requester }) => {
      const what = database === own.database ? 'a copy of this one' : `database ${database}`
      return `${what} in ${incarnation}, announced by ${requester} (this one is in ${own.incarnation})`
    })
    .join('; ')
