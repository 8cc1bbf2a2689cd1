/** SQL of renewal information: facts of a certificate by serial number, and the operator's advice. */

import type { Scope } from '../domain/permissions.ts'
import type { RenewalAdvice } from '../domain/renewal-window.ts'
import { withoutSignOctet } from '../domain/revocation.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { withoutNulls } from './batch-results.ts'
import { batched, type Database, type Statement } from './database.ts'

export interface RenewableCertificate {
  id: string
  accountId: string | undefined
  /** Lower-case hexadecimal. */
  issuerFingerprint: string
  /** The order has them so: DNS names with `*.`, addresses in canonical text. */
  names: readonly string[]
  notBefore: Date
  notAfter: Date
  issuedAt: Date
  revokedAt: Date | undefined
  advice: RenewalAdvice | undefined
  /** The CA behind this service suggested it last. */
  upstream: RenewalAdvice | undefined
  /** An order has named it as replaced, whatever became of that order. */
  isReplaced: boolean
}

/** Selects the unexpired certificates that match every given member. */
export interface AdviceSelection {
  serialNumbers?: readonly Buffer[]
  issuerFingerprint?: Buffer
  issuedBefore?: Date
  /** Tags of which the account has one; beside serial numbers. */
  scope?: Scope
}

export interface RenewalStore {
  /** All with a serial number, since several issuers may give the same. */
  findBySerial: Batched<Buffer, readonly RenewableCertificate[]>
}

/** The operator's advice to renew now. */
interface RenewalAdviceStore {
  /** Sets the advice of the selected certificates, page by page. @returns how many there are. */
  advise(selection: AdviceSelection, advice: RenewalAdvice): Promise<number>
  /** Removes their advice. @returns how many had some */
  clear(selection: AdviceSelection): Promise<number>
  /** Fingerprints of the issuers that have signed something. */
  listIssuers(): Promise<string[]>
}

const FIND: Statement = {
  name: 'renewal-find',
  // certificates_serial_issuer, renewal_advice_pkey, upstream_renewals_pkey, replacements_pkey
  text: `
    SELECT i.ord::integer, c.id, c.account_id AS "accountId", encode(c.issuer_fingerprint, 'hex') AS "issuerFingerprint", c.names,
           c.not_before AS "notBefore", c.not_after AS "notAfter", c.issued_at AS "issuedAt", c.revoked_at AS "revokedAt",
           a.window_start, a.window_end, a.explanation_url,
           u.window_start AS upstream_start, u.window_end AS upstream_end, u.explanation_url AS upstream_url,
           EXISTS (SELECT FROM replacements r WHERE r.certificate_id = c.id) AS "isReplaced"
      FROM unnest($1::bytea[]) WITH ORDINALITY AS i (serial_number, ord)
      JOIN certificates c ON c.serial_number = i.serial_number
      LEFT JOIN renewal_advice a ON a.certificate_id = c.id
      LEFT JOIN upstream_renewals u ON u.certificate_id = c.id`,
}

/** Rows a statement, so that none runs or locks for long. */
const PAGE_SIZE = 5000

/** Unexpired certificates by expiry, which are few among all ever issued. */
const LIVE = `
    WITH seen AS (
      SELECT id, not_after, issuer_fingerprint, issued_at FROM certificates
       WHERE not_after > now() AND not_after >= $1::timestamptz AND (not_after, id) > ($1::timestamptz, $2::uuid)
       ORDER BY not_after, id LIMIT ${PAGE_SIZE}
    ), page AS (
      SELECT id FROM seen
       WHERE ($3::bytea IS NULL OR issuer_fingerprint = $3) AND ($4::timestamptz IS NULL OR issued_at < $4)
    )`

/** The certificates that were named by serial number. */
const NAMED = `
    WITH seen AS MATERIALIZED (
      SELECT id, account_id, not_after, issuer_fingerprint, issued_at FROM certificates WHERE serial_number = ANY ($1::bytea[])
    ), page AS (
      SELECT id FROM seen
       WHERE not_after > now()
         AND ($2::bytea IS NULL OR issuer_fingerprint = $2) AND ($3::timestamptz IS NULL OR issued_at < $3)
         AND ($4::text[] IS NULL OR (SELECT a.tags && $4 FROM accounts a WHERE a.id = account_id))
    )`

const ADVISED = (parameter: number) => `, changed AS (
      INSERT INTO renewal_advice (certificate_id, window_start, window_end, explanation_url)
      SELECT id, $${parameter}, $${parameter + 1}, $${parameter + 2} FROM page
      ON CONFLICT (certificate_id) DO UPDATE
         SET window_start = excluded.window_start, window_end = excluded.window_end,
             explanation_url = excluded.explanation_url, created_at = now()
      RETURNING certificate_id
    )`

const CLEARED = `, changed AS (
      DELETE FROM renewal_advice USING page WHERE certificate_id = page.id RETURNING certificate_id
    )`

const RESULT = `
    SELECT (SELECT count(*)::integer FROM changed) AS changed, (SELECT count(*)::integer FROM seen) AS seen, last.not_after, last.id
      FROM (SELECT) x LEFT JOIN (SELECT not_after, id FROM seen ORDER BY not_after DESC, id DESC LIMIT 1) last ON true`

// certificates_not_after or certificates_serial_issuer; renewal_advice_pkey
const ADVISE: Statement = { name: 'renewal-advise', text: LIVE + ADVISED(5) + RESULT }
const ADVISE_NAMED: Statement = { name: 'renewal-advise-named', text: NAMED + ADVISED(5) + RESULT }
const CLEAR: Statement = { name: 'renewal-clear', text: LIVE + CLEARED + RESULT }
const CLEAR_NAMED: Statement = { name: 'renewal-clear-named', text: NAMED + CLEARED + RESULT }

const LIST_ISSUERS: Statement = {
  name: 'renewal-list-issuers',
  text: "SELECT encode(fingerprint, 'hex') AS fingerprint FROM issuers ORDER BY created_at",
}

const FIRST = { not_after: new Date(0), id: '00000000-0000-0000-0000-000000000000' }

interface Row extends Omit<RenewableCertificate, 'advice' | 'upstream'> {
  ord: number
  window_start: Date | null
  window_end: Date | null
  explanation_url: string | null
  upstream_start: Date | null
  upstream_end: Date | null
  upstream_url: string | null
}

export function createRenewalStore(db: Database): RenewalStore {
  return {
    findBySerial: batched(db, async (serialNumbers: readonly Buffer[]) => {
      const rows = await db.pipeline.run<Row>(FIND, [serialNumbers.map(withoutSignOctet)])
      const found = serialNumbers.map((): RenewableCertificate[] => [])
      for (const row of rows) found[row.ord - 1]?.push(decode(row))
      return found
    }),
  }
}

export function createRenewalAdvice(db: Pick<Database, 'query'>): RenewalAdviceStore {
  interface Page {
    changed: number
    seen: number
    not_after: Date
    id: string
  }

  async function change(
    statements: { live: Statement; named: Statement },
    { serialNumbers, issuerFingerprint, issuedBefore, scope }: AdviceSelection,
    more: readonly unknown[],
  ): Promise<number> {
    const chosen = [issuerFingerprint ?? null, issuedBefore ?? null]
    if (serialNumbers) {
      const [page] = await db.query<Page>(statements.named, [serialNumbers, ...chosen, scope ?? null, ...more])
      return (page as Page).changed
    }
    let changed = 0
    for (let at: Pick<Page, 'not_after' | 'id'> = FIRST, full = true; full; ) {
      const [page] = await db.query<Page>(statements.live, [at.not_after, at.id, ...chosen, ...more])
      at = page as Page
      changed += (page as Page).changed
      full = (page as Page).seen === PAGE_SIZE
    }
    return changed
  }

  return {
    advise: (selection, { window, explanationUrl }) =>
      change({ live: ADVISE, named: ADVISE_NAMED }, selection, [window.start, window.end, explanationUrl ?? null]),
    clear: (selection) => change({ live: CLEAR, named: CLEAR_NAMED }, selection, []),
    async listIssuers() {
      return (await db.query<{ fingerprint: string }>(LIST_ISSUERS, [])).map((row) => row.fingerprint)
    },
  }
}

function decode(row: Row): RenewableCertificate {
  const { ord: _, window_start, window_end, explanation_url, upstream_start, upstream_end, upstream_url, ...own } = row
  const advice = adviceOf(window_start, window_end, explanation_url)
  return { ...withoutNulls(own), advice, upstream: adviceOf(upstream_start, upstream_end, upstream_url) }
}

function adviceOf(start: Date | null, end: Date | null, explanationUrl: string | null): RenewalAdvice | undefined {
  return start && end ? { window: { start, end }, explanationUrl: explanationUrl ?? undefined } : undefined
}

/** A certificate whose CA is to be asked. */
export interface DueRenewal {
  certificateId: string
  backend: string
  der: Buffer
}

export interface UpstreamRenewalStore {
  /**
   * Takes due certificates of a backend, which are due again after `leaseSeconds`. It drops certificates that no client
   * renews any more.
   */
  claimDue(backend: string, limit: number, leaseSeconds: number): Promise<DueRenewal[]>
  /** @param advice undefined when the CA suggests nothing */
  save(certificateId: string, advice: RenewalAdvice | undefined, dueInSeconds: number): Promise<void>
  /** Never asks again. */
  drop(certificateId: string): Promise<void>
}

const CLAIM_DUE: Statement = {
  name: 'upstream-renewal-claim-due',
  // upstream_renewals_backend_due, certificates_pkey
  text: `
    WITH due AS (
      SELECT certificate_id FROM upstream_renewals WHERE backend = $3 AND due_at <= now()
       ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
    ), live AS (
      SELECT c.id, c.der FROM due JOIN certificates c ON c.id = due.certificate_id
       WHERE c.not_after > slow_now() AND c.revoked_at IS NULL
    ), dropped AS (
      DELETE FROM upstream_renewals u USING due
       WHERE u.certificate_id = due.certificate_id AND NOT EXISTS (SELECT FROM live WHERE live.id = due.certificate_id)
    )
    UPDATE upstream_renewals u SET due_at = now() + make_interval(secs => $2)
      FROM live WHERE u.certificate_id = live.id
    RETURNING u.certificate_id AS "certificateId", u.backend, live.der`,
}

const SAVE: Statement = {
  name: 'upstream-renewal-save',
  text: `
    UPDATE upstream_renewals
       SET window_start = $2, window_end = $3, explanation_url = $4, due_at = now() + make_interval(secs => $5)
     WHERE certificate_id = $1`,
}

const DROP: Statement = {
  name: 'upstream-renewal-drop',
  text: 'DELETE FROM upstream_renewals WHERE certificate_id = $1',
}

export function createUpstreamRenewalStore(db: Pick<Database, 'query'>): UpstreamRenewalStore {
  return {
    claimDue: (name, limit, leaseSeconds) => db.query(CLAIM_DUE, [limit, leaseSeconds, name]),
    async save(certificateId, advice, dueInSeconds) {
      const { start, end } = advice?.window ?? {}
      await db.query(SAVE, [certificateId, start ?? null, end ?? null, advice?.explanationUrl ?? null, dueInSeconds])
    },
    async drop(certificateId) {
      await db.query(DROP, [certificateId])
    },
  }
}
