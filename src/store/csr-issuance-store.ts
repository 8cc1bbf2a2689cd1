/**
 * SQL of issuances from a CSR: begun with the order, claimed for one step at a time, and ended by a
 * certificate or a failure (docs/decisions/backends.md).
 *
 * A claim is a lease: until `due_at` no other instance claims the row, unless the holder's instance ends.
 * Every later write names the holder, so the late answer of a former one changes nothing.
 */

import type { HeldIssuance, ProgressEvent } from '../domain/csr-issuance.ts'
import { KEY_COMPROMISE } from '../domain/revocation.ts'
import { CSR_ISSUANCE, statusesAllowing } from '../domain/states.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'
import { withoutNulls } from './batch-results.ts'
import type { Database, Statement } from './database.ts'
import {
  beginsByHistory,
  type HistoryDemands,
  LAPSE,
  LATE_REASON,
  type Lapse,
  movedToProcessing,
} from './issuance-guards.ts'
import { type BeginningOrder, rulesOf } from './issuance-store.ts'
import pg from './pg.ts'
import { csrIssuance, order } from './status-sql.ts'

interface CsrIntent {
  certificateId: string
  order: BeginningOrder
  /** DER */
  csr: Buffer
  spkiSha256: Buffer
  notBefore: Date
  notAfter: Date
  backend: string
  instanceId: number
}

/** The last three keep the age and the failures of an issuance that was a row before. */
interface TakenIntent extends Omit<CsrIntent, 'order' | 'spkiSha256'> {
  ageSeconds?: number
  failures?: number
  dueInSeconds?: number
}

/** A row for one step. */
export interface ClaimedIssuance extends HeldIssuance {
  certificateId: string
  accountId: string
  orderId: string
  csr: Buffer
  identifiers: readonly Identifier[]
  profile: string
  /** The certID of the certificate that the order replaces (RFC 9773 §4.1). */
  replaces: string | undefined
  notBefore: Date
  notAfter: Date
  /** The validity that the client has asked for; empty for an order that retention has deleted. */
  requested: { notBefore?: Date; notAfter?: Date }
  /** Undefined where the backend has begun nothing. */
  state: unknown
  /** An answer of this step or any earlier one was not recorded. */
  wasInterrupted: boolean
  lapse: Lapse | undefined
}

export interface ReceivedCertificate {
  certificateId: string
  serialNumber: Buffer
  issuerFingerprint: Buffer
  names: readonly string[]
  notBefore: Date
  notAfter: Date
  der: Buffer
}

/** The request to the signer, in place of a backend. */
export interface SignerIntent {
  certificateId: string
  serialNumber: Buffer
  issuerId: string
  issuerFingerprint: Buffer
  tbs: Buffer
}

/** `late`: the order had failed or its key is blocked, so the certificate is recorded as revoked. */
export type RecordOutcome = 'recorded' | 'late' | 'lost' | 'duplicate'

export interface CsrIssuanceStore {
  /** Begins as an intent for the signer does (issuance-store.ts). */
  begin(intent: CsrIntent): Promise<boolean>
  /** An intent for the signer becomes one for a backend, in one commit. False when it is gone. */
  takeFromSigner(intent: TakenIntent): Promise<boolean>
  /** The other way round. False when it is gone, a certificate may exist, or its order cannot be issued any more. */
  giveToSigner(intent: SignerIntent, instanceId: number): Promise<boolean>
  /** Claims one row, if it is due. */
  claim(certificateId: string, holder: Holder): Promise<ClaimedIssuance | undefined>
  /** Claims due rows, and those whose holder's instance has ended in a step. */
  claimDue(holder: Holder, limit: number): Promise<ClaimedIssuance[]>
  /** @returns false when another instance holds the row, or its status does not allow the event */
  save(progress: Progress, instanceId: number): Promise<boolean>
  /** The order processing → invalid with this error; the row stays, to fetch what comes too late. */
  abandon(certificateId: string, instanceId: number, error: ProblemDocument): Promise<boolean>
  /**
   * Certificate row, order processing → valid, row gone, in one commit. `duplicate` when the issuer
   * has given the serial number before.
   * @param ifBlocked the order's error where its key is blocked
   */
  record(received: ReceivedCertificate, instanceId: number, ifBlocked: ProblemDocument): Promise<RecordOutcome>
  /**
   * Order processing → invalid with this error, row gone, in one commit.
   * @param unwanted DER of a certificate that must be revoked, unless it is one that was delivered
   */
  fail(certificateId: string, instanceId: number, error: ProblemDocument, unwanted?: Buffer): Promise<boolean>
  /**
   * A certificate that has come when its row was gone: it is to be revoked at the CA. False when it is
   * recorded, and when another instance holds the row, whose answer counts.
   */
  disown(certificateId: string, backend: string, der: Buffer): Promise<boolean>
  /** Rows by backend. */
  count(): Promise<{ backend: string; rows: number }[]>
  /** Saves an issuer with its chains as they came last. */
  saveIssuer(issuer: ReceivedIssuer): Promise<void>
}

interface Holder {
  instanceId: number
  leaseSeconds: number
}

export interface Progress {
  certificateId: string
  event: ProgressEvent
  backend: string
  state: unknown
  /** Whether a step is under way; then `dueInSeconds` is a lease. */
  isRunning: boolean
  failures: number
  dueInSeconds: number
}

interface ReceivedIssuer {
  fingerprint: Buffer
  certificate: Buffer
  /** From the issuer upwards, itself included. */
  chain: readonly Buffer[]
  alternateChains: readonly (readonly Buffer[])[]
}

/** The status as the columns of a row say it. */
const STATUS = `
  CASE WHEN abandoned_at IS NULL AND may_have_issued THEN ${csrIssuance.of('promised')}
       WHEN may_have_issued THEN ${csrIssuance.of('awaited')}
       WHEN abandoned_at IS NOT NULL THEN ${csrIssuance.of('abandoned')}
       WHEN state IS NULL OR state = 'null' THEN ${csrIssuance.of('fresh')}
       ELSE ${csrIssuance.of('opened')} END`

const BEGIN: Statement = {
  name: 'csr-issuance-begin',
  text: `
    WITH ${movedToProcessing(`(
        SELECT $1::uuid AS certificate_id, $2::uuid AS order_id, $3::uuid AS account_id, $4::integer AS key_version,
               $5::text AS csr_profile, $6::text AS grants, $7::bytea AS csr, $8::bytea AS spki_sha256,
               $9::timestamptz AS valid_from, $10::timestamptz AS valid_to, $11::text AS backend, $12::integer AS instance_id) i`)}
    INSERT INTO csr_issuances (certificate_id, order_id, account_id, csr, spki_sha256, not_before, not_after, backend, instance_id)
    SELECT certificate_id, order_id, account_id, csr, spki_sha256, valid_from, valid_to, backend, instance_id
      FROM moved RETURNING certificate_id`,
}

const TAKE_FROM_SIGNER: Statement = {
  name: 'csr-issuance-take-from-signer',
  text: `
    WITH intent AS (
      DELETE FROM issuance_intents WHERE certificate_id = $1 AND instance_id = $6 AND order_id IS NOT NULL
      RETURNING order_id, account_id, spki_sha256
    )
    INSERT INTO csr_issuances (certificate_id, order_id, account_id, csr, spki_sha256, not_before, not_after, backend, instance_id,
                               created_at, failures, due_at)
    SELECT $1, order_id, account_id, $2, spki_sha256, $3, $4, $5, $6,
           now() - make_interval(secs => $7), $8, now() + make_interval(secs => $9)
      FROM intent RETURNING certificate_id`,
}

const GIVE_TO_SIGNER: Statement = {
  name: 'csr-issuance-give-to-signer',
  text: `
    WITH taken AS (
      -- Time has passed since the claim.
      DELETE FROM csr_issuances n
       WHERE certificate_id = $1 AND instance_id = $6 AND ${STATUS} ${csrIssuance.allows('give')} AND ${LAPSE} IS NULL
      RETURNING order_id, account_id, spki_sha256
    )
    INSERT INTO issuance_intents (certificate_id, order_id, account_id, serial_number, issuer_id, issuer_fingerprint, tbs,
                                  spki_sha256, instance_id)
    SELECT $1, order_id, account_id, $2, $3, $4, $5, spki_sha256, $6 FROM taken RETURNING certificate_id`,
}

const claimStatement = (name: string, chosen: string): Statement => ({
  name,
  // csr_issuances_due or csr_issuances_pkey; orders_pkey, accounts_pkey, blocked_keys_pkey.
  text: `
    WITH due AS (
      SELECT certificate_id, is_running FROM csr_issuances WHERE ${chosen} FOR UPDATE SKIP LOCKED
    )
    UPDATE csr_issuances n SET instance_id = $1, due_at = now() + make_interval(secs => $2), is_running = true,
           was_interrupted = n.was_interrupted OR due.is_running
      FROM due WHERE n.certificate_id = due.certificate_id
    RETURNING n.certificate_id AS "certificateId", n.account_id AS "accountId", n.order_id AS "orderId", n.csr,
              n.not_before AS "notBefore", n.not_after AS "notAfter", n.backend, n.state, ${STATUS} AS status,
              due.is_running AS "isRepeated", n.was_interrupted AS "wasInterrupted", n.failures,
              extract(epoch FROM now() - n.created_at)::float8 AS "ageSeconds",
              extract(epoch FROM now() - n.abandoned_at)::float8 AS "abandonedSeconds",
              (SELECT jsonb_build_object('identifiers', o.identifiers, 'profile', o.profile, 'replaces', o.replaces,
                                         'notBefore', o.not_before, 'notAfter', o.not_after)
                 FROM orders o WHERE o.id = n.order_id) AS ordered,
              ${LAPSE} AS lapse`,
})
const CLAIM = claimStatement('csr-issuance-claim', 'certificate_id = $3 AND due_at <= now()')
const CLAIM_DUE = claimStatement(
  'csr-issuance-claim-due',
  `due_at <= now() OR (is_running AND instance_id NOT IN (SELECT live_instances())) ORDER BY due_at LIMIT $3`,
)

const SAVE: Statement = {
  name: 'csr-issuance-save',
  // csr_issuances_pkey
  text: `
    UPDATE csr_issuances
       SET backend = $3, state = $4, may_have_issued = coalesce($5, may_have_issued), is_running = $6, failures = $7,
           due_at = now() + make_interval(secs => $8)
     WHERE certificate_id = $1 AND instance_id = $2 AND ${STATUS} = ANY ($9) RETURNING certificate_id`,
}

const ABANDON: Statement = {
  name: 'csr-issuance-abandon',
  text: `
    WITH kept AS (
      UPDATE csr_issuances SET abandoned_at = now()
       WHERE certificate_id = $1 AND instance_id = $2 AND ${STATUS} ${csrIssuance.allows('abandon')} RETURNING order_id
    ), moved AS (
      UPDATE orders o SET status = ${order.after('failed')}, error = $3
        FROM kept WHERE o.id = kept.order_id AND o.status ${order.allows('failed')}
    )
    SELECT true FROM kept`,
}

const RECORD: Statement = {
  name: 'csr-issuance-record',
  text: `
    WITH taken AS (
      -- The key may have been blocked while the CA was at work (CA/Browser Forum BR 4.9.1.1 (3)).
      DELETE FROM csr_issuances n WHERE certificate_id = $1 AND instance_id = $2
      RETURNING *, CASE WHEN EXISTS (SELECT FROM blocked_keys b WHERE b.spki_sha256 = n.spki_sha256) THEN ${KEY_COMPROMISE}
                        WHEN abandoned_at IS NOT NULL THEN ${LATE_REASON} END AS reason
    ), moved AS (
      UPDATE orders o SET status = ${order.after('issued')}, certificate_id = taken.certificate_id
        FROM taken WHERE o.id = taken.order_id AND o.status ${order.allows('issued')} AND reason IS NULL
    ), failed AS (
      UPDATE orders o SET status = ${order.after('failed')}, error = $9
        FROM taken WHERE o.id = taken.order_id AND o.status ${order.allows('failed')} AND reason IS NOT NULL
    ), revoked AS (
      INSERT INTO backend_revocations (certificate_id, backend, der, reason)
      SELECT certificate_id, backend, $8, reason FROM taken WHERE reason IS NOT NULL
    ), asked AS (
      -- The CA is soon asked when it would renew this one.
      INSERT INTO upstream_renewals (certificate_id, backend)
      SELECT certificate_id, backend FROM taken WHERE reason IS NULL
    )
    INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                              spki_sha256, backend, revoked_at, revocation_reason)
    SELECT certificate_id, account_id, order_id, $3, $4, $5, $6, $7, $8, spki_sha256, backend,
           CASE WHEN reason IS NOT NULL THEN date_trunc('second', now()) END, reason
      FROM taken
    RETURNING revoked_at IS NOT NULL AS is_late`,
}

const FAIL: Statement = {
  name: 'csr-issuance-fail',
  // certificates_fingerprint
  text: `
    WITH taken AS (
      DELETE FROM csr_issuances WHERE certificate_id = $1 AND instance_id = $2 RETURNING order_id, backend
    ), moved AS (
      UPDATE orders o SET status = ${order.after('failed')}, error = $3
        FROM taken WHERE o.id = taken.order_id AND o.status ${order.allows('failed')}
    ), revoked AS (
      INSERT INTO backend_revocations (certificate_id, backend, der, reason)
      SELECT $1, backend, $4, ${LATE_REASON} FROM taken
       WHERE $4::bytea IS NOT NULL AND NOT EXISTS (SELECT FROM certificates c WHERE sha256(c.der) = sha256($4))
    )
    SELECT true FROM taken`,
}

const DISOWN: Statement = {
  name: 'csr-issuance-disown',
  // csr_issuances_pkey, certificates_fingerprint
  text: `
    INSERT INTO backend_revocations (certificate_id, backend, der, reason)
    SELECT gen_random_uuid(), $2, $3, ${LATE_REASON}
     WHERE NOT EXISTS (SELECT FROM csr_issuances n WHERE n.certificate_id = $1)
       AND NOT EXISTS (SELECT FROM certificates c WHERE sha256(c.der) = sha256($3))
    RETURNING certificate_id`,
}

const COUNT: Statement = {
  name: 'csr-issuance-count',
  text: 'SELECT backend, count(*)::integer AS rows FROM csr_issuances GROUP BY backend',
}

const SAVE_ISSUER: Statement = {
  name: 'received-issuer-save',
  text: `
    INSERT INTO issuers AS known (fingerprint, certificate, chain, alternate_chains) VALUES ($1, $2, $3, $4)
    ON CONFLICT (fingerprint) DO UPDATE SET chain = excluded.chain, alternate_chains = excluded.alternate_chains
     WHERE known.chain <> excluded.chain OR known.alternate_chains IS DISTINCT FROM excluded.alternate_chains`,
}

const UNIQUE_VIOLATION = '23505'
const SERIAL_INDEX = 'certificates_serial_issuer'

function valuesOfIntent({ certificateId, order, ...given }: CsrIntent): unknown[] {
  const { csr, spkiSha256, notBefore, notAfter, backend, instanceId } = given
  const { accountId, keyVersion } = order.requester
  const who = [order.id, accountId, keyVersion, ...rulesOf([order]).flat()]
  return [certificateId, ...who, csr, spkiSha256, notBefore, notAfter, backend, instanceId]
}

export function createCsrIssuanceStore(db: Database): CsrIssuanceStore {
  const done = async (statement: Statement, values: readonly unknown[]) =>
    (await db.query(statement, values)).length > 0
  const beginByHistory = beginsByHistory<CsrIntent & { history: HistoryDemands }>(
    db,
    ({ history }) => history,
    async (tx, intent) => (await tx.query(BEGIN, valuesOfIntent(intent))).length > 0,
    { keyOf: ({ order }) => order.id },
  )
  return {
    begin(intent) {
      const { history } = intent.order
      return history ? beginByHistory({ ...intent, history }) : done(BEGIN, valuesOfIntent(intent))
    },
    takeFromSigner: ({ certificateId, csr, notBefore, notAfter, backend, instanceId, ...former }) => {
      const { ageSeconds = 0, failures = 0, dueInSeconds = 0 } = former
      const given = [certificateId, csr, notBefore, notAfter, backend, instanceId]
      return done(TAKE_FROM_SIGNER, [...given, ageSeconds, failures, dueInSeconds])
    },
    giveToSigner: ({ certificateId, serialNumber, issuerId, issuerFingerprint, tbs }, instanceId) =>
      done(GIVE_TO_SIGNER, [certificateId, serialNumber, issuerId, issuerFingerprint, tbs, instanceId]),
    async claim(certificateId, { instanceId, leaseSeconds }) {
      return (await db.query<ClaimRow>(CLAIM, [instanceId, leaseSeconds, certificateId])).map(decode)[0]
    },
    async claimDue({ instanceId, leaseSeconds }, limit) {
      return (await db.query<ClaimRow>(CLAIM_DUE, [instanceId, leaseSeconds, limit])).map(decode)
    },
    save({ certificateId, event, backend, state, isRunning, failures, dueInSeconds }, instanceId) {
      const json = state === undefined ? null : JSON.stringify(state)
      const mayHaveIssued = event === 'rest' ? null : event === 'promise'
      const row = [certificateId, instanceId, backend, json, mayHaveIssued, isRunning, failures, dueInSeconds]
      return done(SAVE, [...row, statusesAllowing(CSR_ISSUANCE, event)])
    },
    abandon: (certificateId, instanceId, error) => done(ABANDON, [certificateId, instanceId, error]),
    async record({ certificateId, issuerFingerprint, names, ...received }, instanceId, ifBlocked) {
      const { serialNumber, notBefore, notAfter, der } = received
      const values = [certificateId, instanceId, serialNumber, issuerFingerprint, names, notBefore, notAfter, der]
      try {
        const [row] = await db.query<{ is_late: boolean }>(RECORD, [...values, ifBlocked])
        return row ? (row.is_late ? 'late' : 'recorded') : 'lost'
      } catch (error) {
        if (error instanceof pg.DatabaseError && error.code === UNIQUE_VIOLATION && error.constraint === SERIAL_INDEX)
          return 'duplicate'
        throw error
      }
    },
    fail: (certificateId, instanceId, error, unwanted) =>
      done(FAIL, [certificateId, instanceId, error, unwanted ?? null]),
    disown: (certificateId, backend, der) => done(DISOWN, [certificateId, backend, der]),
    count: () => db.query(COUNT, []),
    async saveIssuer({ fingerprint, certificate, chain, alternateChains }) {
      const alternates = alternateChains.map((one) => one.map((der) => der.toString('base64')))
      await db.query(SAVE_ISSUER, [
        fingerprint,
        certificate,
        chain,
        alternates.length > 0 ? JSON.stringify(alternates) : null,
      ])
    },
  }
}

/** The statement names its columns like this. */
type ClaimRow = Omit<ClaimedIssuance, 'identifiers' | 'profile' | 'replaces' | 'requested'> & {
  /** Null when retention has deleted the order. */
  ordered: {
    identifiers: Identifier[]
    profile: string
    replaces: string | null
    notBefore: string | null
    notAfter: string | null
  } | null
}

function decode({ ordered, ...row }: ClaimRow): ClaimedIssuance {
  const { identifiers = [], profile = '', replaces, notBefore, notAfter } = ordered ?? {}
  const requested = {
    ...(notBefore && { notBefore: new Date(notBefore) }),
    ...(notAfter && { notAfter: new Date(notAfter) }),
  }
  return { ...withoutNulls(row), identifiers, profile, replaces: replaces ?? undefined, requested }
}
