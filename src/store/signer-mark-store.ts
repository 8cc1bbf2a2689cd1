/**
 * SQL of the comparison with a signer's records: what of a page is missing in the database, and the mark up to which
 * nothing is missing.
 *
 * A mark moves on the session that has looked, and only from where the page began. After a fail-over to an older copy the
 * look is repeated there, from the mark of that copy.
 */

import { KEY_COMPROMISE } from '../domain/revocation.ts'
import type { Database, Statement } from './database.ts'

/** A place in the chain's revocations: a line, and the last part of it. */
export interface RevocationPlace {
  seq: number
  part: number
}

/** Behind the last part of any line. */
export const WHOLE_LINE = 0x7fffffff

export interface SignerMark {
  certificates: number
  revocations: RevocationPlace
  behindSince: Date | undefined
}

/** Places after `after` up to `last`. */
interface Stretch<P> {
  /** Identity of the chain, in hexadecimal. */
  chain: string
  after: P
  last: P
}

export interface ListedRevocation {
  /** Lower-case hexadecimal without leading zero octets. */
  serialNumber: string
  revokedAt: Date
  reason: number
}

/** Entries of one issuer, under any of its certificates. */
export interface IssuerRevocations {
  issuerFingerprints: readonly Buffer[]
  entries: readonly ListedRevocation[]
}

interface WithoutCertificate {
  missing: number[]
  underWay: number[]
}

export interface SignerMarkStore {
  /** The mark of a chain; 0 for a chain without one. */
  mark(chain: string): Promise<SignerMark>
  /**
   * Serial numbers without a certificate, by their place in the list. With an intent of at most `intentSeconds` an issuance
   * is under way. Where all have certificates, the mark moves from `after` to `last`; without a stretch it stays.
   */
  withoutCertificate(
    serialNumbers: readonly string[],
    intentSeconds: number,
    stretch: Stretch<number> | undefined,
  ): Promise<WithoutCertificate>
  /** Entries that the database does not have as revoked, or as compromised; the mark moves as above. */
  missingRevocations<P extends IssuerRevocations>(
    pages: readonly P[],
    stretch: Stretch<RevocationPlace> | undefined,
  ): Promise<P[]>
  /** Takes a mark that is beyond these lines back to them. */
  lower(chain: string, last: { certificates: number; revocations: number }): Promise<void>
  /** Says that something is missing. @returns false when that was said before */
  noteBehind(chain: string): Promise<boolean>
  noteNothingMissing(): Promise<void>
  /** Remembers what does not come back. @returns what was not remembered before */
  noteGivenUp(chain: string, lines: readonly GivenUp[]): Promise<GivenUp[]>
  /** What was given up, until an operator accepts it. */
  givenUp(): Promise<GivenUp[]>
  acceptGivenUp(): Promise<void>
}

/** A line of the audit chain whose certificate does not come back. */
export interface GivenUp {
  sequence: number
  serialNumber: string
  reason: string
}

const NOTE_GIVEN_UP: Statement = {
  name: 'signer-given-up-note',
  text: `
    INSERT INTO signer_given_up (chain, sequence, serial_number, reason)
    SELECT decode($1, 'hex'), sequence, decode(serial, 'hex'), reason
      FROM unnest($2::bigint[], $3::text[], $4::text[]) AS lines (sequence, serial, reason)
    ON CONFLICT DO NOTHING RETURNING sequence::double precision`,
}

const GIVEN_UP: Statement = {
  name: 'signer-given-up',
  text: `
    SELECT sequence::double precision, encode(serial_number, 'hex') AS "serialNumber", reason
      FROM signer_given_up WHERE accepted_at IS NULL ORDER BY given_up_at, sequence LIMIT 1000`,
}

const ACCEPT_GIVEN_UP: Statement = {
  name: 'signer-given-up-accept',
  text: 'UPDATE signer_given_up SET accepted_at = now() WHERE accepted_at IS NULL',
}

const READ: Statement = {
  name: 'signer-mark',
  // signer_marks_pkey
  text: `
    SELECT certificates_seq::double precision AS certificates, revocations_seq::double precision AS seq,
           revocations_part AS part, behind_since AS "behindSince"
      FROM signer_marks WHERE chain = decode($1, 'hex')`,
}

const BEGIN: Statement = {
  name: 'signer-mark-begin',
  text: `INSERT INTO signer_marks (chain) VALUES (decode($1, 'hex')) ON CONFLICT DO NOTHING`,
}

/** A mark that a crash takes back is moved again, so nothing waits for the disk. */
const UNHURRIED = `set_config('synchronous_commit', 'off', true) = 'off'`

const WITHOUT_CERTIFICATE: Statement = {
  name: 'signer-without-certificate',
  // certificates_serial_issuer alone, one range a serial number, in the order of the index; issuance_intents, which is
  // short, for those without.
  text: `
    WITH page AS MATERIALIZED (
      SELECT decode(serial, 'hex') AS serial_number, place FROM string_to_table($1, ' ') WITH ORDINALITY AS p (serial, place)
       WHERE NOT EXISTS (SELECT FROM signer_marks WHERE chain = decode($3, 'hex') AND certificates_seq >= $5)
       ORDER BY serial_number
    ), unrecorded AS MATERIALIZED (
      SELECT * FROM page p WHERE NOT EXISTS (SELECT FROM certificates c WHERE c.serial_number = p.serial_number)
    ), moved AS (
      UPDATE signer_marks SET certificates_seq = $5, updated_at = now()
       WHERE chain = decode($3, 'hex') AND certificates_seq >= $4 AND certificates_seq < $5
         AND NOT EXISTS (SELECT FROM unrecorded) AND ${UNHURRIED}
    )
    SELECT (place - 1)::integer AS place,
           EXISTS (SELECT FROM issuance_intents n WHERE n.serial_number = u.serial_number
                      AND n.created_at > now() - make_interval(secs => $2)) AS is_under_way
      FROM unrecorded u ORDER BY place`,
}

const UNREVOKED: Statement = {
  name: 'signer-missing-revocations',
  // certificates_serial_issuer, one range a serial number. A reason becomes keyCompromise later, and no other one.
  text: `
    SELECT (place - 1)::integer AS place FROM string_to_table($1, ' ') WITH ORDINALITY AS p (serial, place)
     WHERE NOT EXISTS (SELECT FROM certificates c WHERE c.serial_number = decode(p.serial, 'hex')
                          AND c.issuer_fingerprint = ANY ($2) AND c.revoked_at IS NOT NULL
                          AND (c.revocation_reason = ${KEY_COMPROMISE} OR place <> ALL ($3::integer[])))
     ORDER BY place`,
}

const MOVE_REVOCATIONS: Statement = {
  name: 'signer-mark-revocations',
  text: `
    UPDATE signer_marks SET revocations_seq = $4, revocations_part = $5, updated_at = now()
     WHERE chain = decode($1, 'hex') AND (revocations_seq, revocations_part) >= ($2, $3)
       AND (revocations_seq, revocations_part) < ($4, $5) AND ${UNHURRIED}`,
}

const LOWER: Statement = {
  name: 'signer-mark-lower',
  text: `
    UPDATE signer_marks SET certificates_seq = least(certificates_seq, $2),
           revocations_part = CASE WHEN revocations_seq > $3 THEN ${WHOLE_LINE} ELSE revocations_part END,
           revocations_seq = least(revocations_seq, $3),
           decisions_seq = least(decisions_seq, greatest($2, $3)), updated_at = now()
     WHERE chain = decode($1, 'hex')`,
}

const NOTE_BEHIND: Statement = {
  name: 'signer-mark-behind',
  text: `
    UPDATE signer_marks SET behind_since = now() WHERE chain = decode($1, 'hex') AND behind_since IS NULL RETURNING chain`,
}

const NOTE_NOTHING_MISSING: Statement = {
  name: 'signer-mark-whole',
  // Another chain that is still behind says so again.
  text: 'UPDATE signer_marks SET behind_since = NULL WHERE behind_since IS NOT NULL',
}

type MarkRow = RevocationPlace & { certificates: number; behindSince: Date | null }

export function createSignerMarkStore(db: Pick<Database, 'query' | 'transaction'>): SignerMarkStore {
  return {
    async mark(chain) {
      const [row] = await db.query<MarkRow>(READ, [chain])
      if (!row) await db.query(BEGIN, [chain])
      const { certificates = 0, seq = 0, part = 0, behindSince } = row ?? {}
      return { certificates, revocations: { seq, part }, behindSince: behindSince ?? undefined }
    },
    async withoutCertificate(serialNumbers, intentSeconds, stretch) {
      const place = [stretch?.chain ?? null, stretch?.after ?? null, stretch?.last ?? null]
      const values = [serialNumbers.join(' '), intentSeconds, ...place]
      const rows = await db.query<{ place: number; is_under_way: boolean }>(WITHOUT_CERTIFICATE, values)
      const placesOf = (isUnderWay: boolean) =>
        rows.flatMap((row) => (row.is_under_way === isUnderWay ? [row.place] : []))
      return { missing: placesOf(false), underWay: placesOf(true) }
    },
    missingRevocations: (pages, stretch) =>
      db.transaction(async (tx) => {
        const missing: (typeof pages)[number][] = []
        for (const page of pages) {
          const serialNumbers = page.entries.map(({ serialNumber }) => serialNumber).join(' ')
          const compromised = page.entries.flatMap(({ reason }, at) => (reason === KEY_COMPROMISE ? [at + 1] : []))
          const values = [serialNumbers, page.issuerFingerprints, compromised]
          const rows = await tx.query<{ place: number }>(UNREVOKED, values)
          const entries = rows.flatMap(({ place }) => page.entries[place] ?? [])
          if (entries.length > 0) missing.push({ ...page, entries })
        }
        if (stretch && missing.length === 0) {
          const { chain, after, last } = stretch
          await tx.query(MOVE_REVOCATIONS, [chain, after.seq, after.part, last.seq, last.part])
        }
        return missing
      }),
    async lower(chain, { certificates, revocations }) {
      await db.query(LOWER, [chain, certificates, revocations])
    },
    noteBehind: async (chain) => (await db.query(NOTE_BEHIND, [chain])).length > 0,
    async noteNothingMissing() {
      await db.query(NOTE_NOTHING_MISSING, [])
    },
    async noteGivenUp(chain, lines) {
      const columns = [lines.map((one) => one.sequence), lines.map((one) => one.serialNumber)]
      const values = [chain, ...columns, lines.map((one) => one.reason)]
      const noted = lines.length > 0 ? await db.query<{ sequence: number }>(NOTE_GIVEN_UP, values) : []
      return lines.filter((one) => noted.some(({ sequence }) => sequence === one.sequence))
    },
    givenUp: () => db.query(GIVEN_UP, []),
    async acceptGivenUp() {
      await db.query(ACCEPT_GIVEN_UP, [])
    },
  }
}
