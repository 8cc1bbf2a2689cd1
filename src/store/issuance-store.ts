/**
 * SQL of issuance: the intent before the signature, the certificate after it (ARCHITECTURE.md, life of an issuance).
 */

import { KEY_COMPROMISE } from '../domain/revocation.ts'
import type { Batched, CommandTraits } from '../shared/lib/batcher.ts'
import { lowestUuidv7 } from '../shared/lib/uuid.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import type { Requester } from './account-store.ts'
import { withoutNulls } from './batch-results.ts'
import { revokeCertificate } from './certificate-store.ts'
import { batched, type Database, type Statement } from './database.ts'
import {
  beginsByHistory,
  type HistoryDemands,
  LAPSE,
  LATE_REASON,
  type Lapse,
  movedToProcessing,
} from './issuance-guards.ts'
import { order } from './status-sql.ts'

/** Ranges of serial numbers from a database sequence (`ca.serial_source: database`). */
const NEXT: Statement = {
  name: 'serial-range-next',
  text: "SELECT nextval('certificate_serial_ranges') AS range",
}

export async function nextSerialRange(db: Database): Promise<bigint> {
  const [row] = await db.query<{ range: string }>(NEXT, [])
  if (!row) throw new Error('nextval must give a row')
  return BigInt(row.range)
}

export type { Lapse }

/** Rules that an administrator may change during a finalize; an order begins only while they are unchanged. */
export interface RulesSeen {
  /** Absent where the account had none. */
  csrProfile?: { id: string; version: string } | undefined
  /** Ids of the allowed identifiers that allow the order's; absent where allowlists are not enforced. */
  grants?: readonly string[] | undefined
  /** Absent where no CSR profile asks for the history. */
  history?: HistoryDemands | undefined
}

/** An order as finalize has checked it. */
export interface BeginningOrder extends RulesSeen {
  id: string
  requester: Requester
}

/** A certificate about to be signed. */
export interface IssuanceIntent {
  certificateId: string
  /** Undefined for a certificate that the service issues to itself. */
  order: BeginningOrder | undefined
  serialNumber: Buffer
  issuerId: string
  issuerFingerprint: Buffer
  tbs: Buffer
  /** SHA-256 of the key to be certified, which must not be blocked. */
  spkiSha256: Buffer
  instanceId: number
  /** Whether the client has left; an intent that has not begun by then is dropped. */
  isGone?: (() => boolean) | undefined
}

/** An intent as recovery finds it. */
export interface PendingIntent {
  certificateId: string
  accountId: string | undefined
  orderId: string | undefined
  issuerId: string
  tbs: Buffer
  lapse: Lapse | undefined
  /** Every request to the signer so far is known to have signed nothing. */
  isUnsigned: boolean
}

export interface IssuedCertificate {
  certificateId: string
  der: Buffer
  names: readonly string[]
  notBefore: Date
  notAfter: Date
}

export interface IssuanceStore {
  /**
   * Order ready → processing and its intent, in one commit. False when the order is not ready, its
   * account not valid, its rules not those that were seen, the key blocked, or the history against it.
   */
  begin: Batched<IssuanceIntent, boolean>
  /** SHA-256 of the key that an order is being or was issued for; undefined before. */
  findKey(orderId: string): Promise<Buffer | undefined>
  /**
   * Certificate row, order processing → valid, intent deleted, in one commit. False when another
   * instance has completed it.
   */
  complete: Batched<IssuedCertificate, boolean>
  /** Order processing → invalid with this error, intent deleted. False when it was completed meanwhile. */
  fail(certificateId: string, error: ProblemDocument): Promise<boolean>
  /**
   * Fails an order whose certificate may have been signed: the serial number is recorded as revoked, without DER
   * (docs/decisions/lost-certificates.md).
   */
  abandon(certificateId: string, error: ProblemDocument, period: Period): Promise<boolean>
  /**
   * The signer has surely not signed this intent of the instance. Only the holder may say so: the
   * thread that has begun it, or else the recovery that has adopted it.
   */
  noteUnsigned(certificateId: string, instanceId: number, holder: 'beginner' | 'recovery'): Promise<void>
  /**
   * Takes over intents of dead instances, own ones older than `ownOlderThanSeconds`, and others older than
   * `othersOlderThanSeconds`. Like `begin`, it decides whether they may be signed; a later withdrawal comes too late.
   */
  adopt(instanceId: number, which: Adoption, limit: number): Promise<PendingIntent[]>
}

type Period = Pick<IssuedCertificate, 'notBefore' | 'notAfter'>

interface Adoption {
  ownOlderThanSeconds: number
  othersOlderThanSeconds?: number | undefined
  /** Only issuances that began before; undefined sets no bound. */
  begunBefore?: Date | undefined
}

/** Columns of an intent, in the order of the parameters. */
const INTENT = `certificate_id, order_id, account_id, serial_number, issuer_id, issuer_fingerprint, tbs, spki_sha256, instance_id`
const GIVEN_INTENTS = `
        unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[],
               $9::integer[], $10::integer[], $11::text[], $12::text[]) AS i (${INTENT}, key_version, csr_profile, grants)`

const BEGIN: Statement = {
  name: 'issuance-begin',
  // accounts_pkey, orders_pkey or orders_account (both columns), authorizations_pkey for each
  // identifier, account_csr_profiles_pkey, csr_profiles_pkey, account_allowed_identifiers_pkey for
  // each grant, blocked_keys_pkey, order_claims_pkey. One update, one delete, one insert.
  text: `
    WITH ${movedToProcessing(GIVEN_INTENTS)}
    INSERT INTO issuance_intents (${INTENT}) SELECT ${INTENT} FROM moved RETURNING certificate_id AS id`,
}

const BEGIN_OWN: Statement = {
  name: 'issuance-begin-own',
  text: `INSERT INTO issuance_intents (${INTENT}) SELECT ${INTENT} FROM ${GIVEN_INTENTS} RETURNING certificate_id AS id`,
}

const FIND_KEY: Statement = {
  name: 'issuance-find-key',
  // The unique indexes on order_id of all. A single statement moves the key, so every snapshot shows it.
  text: `
    SELECT spki_sha256 FROM issuance_intents WHERE order_id = $1
    UNION ALL
    SELECT spki_sha256 FROM csr_issuances WHERE order_id = $1
    UNION ALL
    SELECT spki_sha256 FROM certificates WHERE order_id = $1`,
}

const COMPLETE: Statement = {
  name: 'issuance-complete',
  // issuance_intents_pkey, certificates' three unique indexes, orders_pkey
  text: `
    WITH intent AS (
      DELETE FROM issuance_intents n
       USING unnest($1::uuid[], $2::bytea[], $3::text[], $4::timestamptz[], $5::timestamptz[])
          AS i (id, der, names, not_before, not_after)
       WHERE n.certificate_id = i.id
      RETURNING i.*, n.account_id, n.order_id, n.serial_number, n.issuer_fingerprint, n.spki_sha256
    ), moved AS (
      UPDATE orders o SET status = ${order.after('issued')}, certificate_id = intent.id
        FROM intent WHERE o.id = intent.order_id AND o.status ${order.allows('issued')}
    )
    INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                              spki_sha256)
    SELECT id, account_id, order_id, serial_number, issuer_fingerprint, string_to_array(names, ' '), not_before, not_after,
           der, spki_sha256
      FROM intent
    RETURNING id`,
}

const FAIL: Statement = {
  name: 'issuance-fail',
  text: `
    WITH intent AS (
      DELETE FROM issuance_intents WHERE certificate_id = $1 RETURNING order_id
    ), moved AS (
      UPDATE orders o SET status = ${order.after('failed')}, error = $2
        FROM intent n WHERE o.id = n.order_id AND o.status ${order.allows('failed')}
    )
    SELECT true FROM intent`,
}

const ABANDON: Statement = {
  name: 'issuance-abandon',
  text: `
    WITH intent AS (
      DELETE FROM issuance_intents WHERE certificate_id = $1
      RETURNING certificate_id, order_id, serial_number, issuer_fingerprint, spki_sha256
    ), moved AS (
      UPDATE orders o SET status = ${order.after('failed')}, error = $2
        FROM intent n WHERE o.id = n.order_id AND o.status ${order.allows('failed')}
    ), unseen AS (
      -- One that an operator has imported is in use.
      INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
      SELECT certificate_id, serial_number, issuer_fingerprint, '{}', $3, $4, '' FROM intent
      ON CONFLICT (serial_number, issuer_fingerprint) DO NOTHING RETURNING id
    )
    SELECT (SELECT id FROM unseen) AS unseen,
           CASE WHEN EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = intent.spki_sha256) THEN ${KEY_COMPROMISE} ELSE ${LATE_REASON} END AS reason
      FROM intent`,
}

const ADOPT: Statement = {
  name: 'issuance-adopt',
  // issuance_intents is read whole, as it holds only intents in flight or left behind. Then, for
  // each adopted one: orders_pkey, accounts_pkey, blocked_keys_pkey, authorizations_pkey.
  text: `
    WITH abandoned AS (
      SELECT certificate_id, coalesce(unsigned_by = instance_id, false) AS is_unsigned FROM issuance_intents
       WHERE CASE WHEN instance_id = $1 THEN created_at < now() - make_interval(secs => $2)
                  ELSE instance_id NOT IN (SELECT live_instances()) OR created_at < now() - make_interval(secs => $4) END
         AND ($5::uuid IS NULL OR certificate_id < $5)
       ORDER BY created_at LIMIT $3 FOR UPDATE SKIP LOCKED
    )
    UPDATE issuance_intents n SET instance_id = $1, created_at = now(), unsigned_by = -$1
      FROM abandoned WHERE n.certificate_id = abandoned.certificate_id
    RETURNING n.certificate_id AS "certificateId", n.account_id AS "accountId", n.order_id AS "orderId",
              n.issuer_id AS "issuerId", n.tbs, ${LAPSE} AS lapse, abandoned.is_unsigned AS "isUnsigned"`,
}

const NOTE_UNSIGNED: Statement = {
  name: 'issuance-note-unsigned',
  text: `
    UPDATE issuance_intents SET unsigned_by = instance_id
     WHERE certificate_id = $1 AND instance_id = $2 AND unsigned_by IS NOT DISTINCT FROM $3`,
}

function valuesOfIntents(intents: readonly IssuanceIntent[]): unknown[] {
  return [
    intents.map((n) => n.certificateId),
    intents.map((n) => n.order?.id),
    intents.map((n) => n.order?.requester.accountId),
    intents.map((n) => n.serialNumber),
    intents.map((n) => n.issuerId),
    intents.map((n) => n.issuerFingerprint),
    intents.map((n) => n.tbs),
    intents.map((n) => n.spkiSha256),
    intents.map((n) => n.instanceId),
    intents.map((n) => n.order?.requester.keyVersion),
    ...rulesOf(intents.map((n) => n.order)),
  ]
}

/** Columns csr_profile and grants of what begins (issuance-guards.ts). */
export function rulesOf(orders: readonly (RulesSeen | undefined)[]): [(string | undefined)[], (string | undefined)[]] {
  return [
    orders.map((o) => o?.csrProfile && `${o.csrProfile.id} ${o.csrProfile.version}`),
    orders.map((o) => o?.grants?.join(' ')),
  ]
}

export function createIssuanceStore(db: Database): IssuanceStore {
  const traits: CommandTraits<IssuanceIntent> = {
    keyOf: (intent) => intent.order?.id ?? intent.certificateId,
    isGone: (intent) => intent.isGone?.() === true,
  }
  const beginWith = (statement: Statement) =>
    batched(
      db,
      async (intents: readonly IssuanceIntent[]) =>
        flags(await db.pipeline.run<{ id: string }>(statement, valuesOfIntents(intents)), intents),
      traits,
    )
  const begin = beginWith(BEGIN)
  const beginOwn = beginWith(BEGIN_OWN)
  const beginByHistory = beginsByHistory<IssuanceIntent & { history: HistoryDemands }>(
    db,
    ({ history }) => history,
    async (tx, intent) => (await tx.query(BEGIN, valuesOfIntents([intent]))).length > 0,
    traits,
  )

  return {
    begin(intent) {
      if (!intent.order) return beginOwn(intent)
      const { history } = intent.order
      return history ? beginByHistory({ ...intent, history }) : begin(intent)
    },

    complete: batched(db, async (issued: readonly IssuedCertificate[]) => {
      const rows = await db.pipeline.run<{ id: string }>(COMPLETE, [
        issued.map((c) => c.certificateId),
        issued.map((c) => c.der),
        issued.map((c) => c.names.join(' ')),
        issued.map((c) => c.notBefore),
        issued.map((c) => c.notAfter),
      ])
      return flags(rows, issued)
    }),

    async findKey(orderId) {
      return (await db.query<{ spki_sha256: Buffer | null }>(FIND_KEY, [orderId]))[0]?.spki_sha256 ?? undefined
    },

    async fail(certificateId, error) {
      return (await db.query(FAIL, [certificateId, error])).length > 0
    },

    abandon: (certificateId, error, period) => db.transaction((tx) => abandon(tx, certificateId, error, period)),

    async noteUnsigned(certificateId, instanceId, holder) {
      await db.query(NOTE_UNSIGNED, [certificateId, instanceId, holder === 'recovery' ? -instanceId : null])
    },

    async adopt(instanceId, { ownOlderThanSeconds, othersOlderThanSeconds, begunBefore }, limit) {
      const begun = begunBefore && lowestUuidv7(begunBefore.getTime())
      const values = [instanceId, ownOlderThanSeconds, limit, othersOlderThanSeconds ?? null, begun ?? null]
      return (await db.query<PendingIntent>(ADOPT, values)).map(withoutNulls)
    },
  }
}

/** Two statements: a trigger counts revocations for the CRL, and sees no row that the same statement has made. */
async function abandon(
  tx: Pick<Database, 'query'>,
  certificateId: string,
  error: ProblemDocument,
  { notBefore, notAfter }: Period,
): Promise<boolean> {
  type Row = { unseen: string | null; reason: number }
  const [abandoned] = await tx.query<Row>(ABANDON, [certificateId, error, notBefore, notAfter])
  if (abandoned?.unseen) {
    const nobody = { blockedKey: undefined, requester: undefined }
    await revokeCertificate(tx, { certificateId: abandoned.unseen, reason: abandoned.reason, ...nobody })
  }
  return abandoned !== undefined
}

function flags(rows: readonly { id: string }[], commands: readonly { certificateId: string }[]): boolean[] {
  const done = new Set(rows.map(({ id }) => id))
  return commands.map(({ certificateId }) => done.delete(certificateId))
}
