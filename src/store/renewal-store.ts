/** SQL of renewal information: what is known of a certificate by its serial number, and the operator's advice. */

import type { RenewalAdvice, RenewalWindow } from '../domain/renewal-window.ts'
import type { Batched } from '../lib/batcher.ts'
import { batched, type Database, type Statement } from './database.ts'

export interface RenewableCertificate {
  id: string
  accountId: string | undefined
  /** Lower-case hexadecimal. */
  issuerFingerprint: string
  /** As in the order: DNS names with `*.`, addresses in canonical text. */
  names: readonly string[]
  notBefore: Date
  notAfter: Date
  revokedAt: Date | undefined
  advice: RenewalAdvice | undefined
}

/** Which certificates advice is for: those that every given member fits. Expired ones never are. */
export interface AdviceSelection {
  serialNumbers?: readonly Buffer[]
  issuerFingerprint?: Buffer
  issuedBefore?: Date
}

export interface RenewalStore {
  findBySerial: Batched<Buffer, RenewableCertificate | undefined>
  /** Sets the advice of the selected certificates, page by page. @returns how many there are. */
  advise(selection: AdviceSelection, advice: RenewalAdvice): Promise<number>
  /** Takes it back. @returns how many had some. */
  clear(selection: AdviceSelection): Promise<number>
  /** Fingerprints of the issuers that have signed something. */
  listIssuers(): Promise<string[]>
}

const FIND: Statement = {
  name: 'renewal-find',
  // certificates_serial_number_key, renewal_advice_pkey
  text: `
    SELECT i.ord::integer, c.id, c.account_id, encode(c.issuer_fingerprint, 'hex') AS issuer_fingerprint, c.names,
           c.not_before, c.not_after, c.revoked_at, a.window_start, a.window_end, a.explanation_url
      FROM unnest($1::bytea[]) WITH ORDINALITY AS i (serial_number, ord)
      JOIN certificates c ON c.serial_number = i.serial_number
      LEFT JOIN renewal_advice a ON a.certificate_id = c.id`,
}

/** One page of a selection, along the primary key, so that no statement runs or locks for long. */
const PAGE = `
    SELECT id FROM certificates
     WHERE id > $1 AND not_after > now()
       AND ($2::bytea[] IS NULL OR serial_number = ANY ($2)) AND ($3::bytea IS NULL OR issuer_fingerprint = $3)
       AND ($4::timestamptz IS NULL OR issued_at < $4)
     ORDER BY id LIMIT 5000`

const ADVISE: Statement = {
  name: 'renewal-advise',
  text: `
    WITH page AS (${PAGE}
    ), advised AS (
      INSERT INTO renewal_advice (certificate_id, window_start, window_end, explanation_url)
      SELECT id, $5, $6, $7 FROM page
      ON CONFLICT (certificate_id) DO UPDATE
         SET window_start = excluded.window_start, window_end = excluded.window_end,
             explanation_url = excluded.explanation_url, created_at = now()
      RETURNING certificate_id
    )
    SELECT id, true AS changed FROM page ORDER BY id`,
}

const CLEAR: Statement = {
  name: 'renewal-clear',
  text: `
    WITH page AS (${PAGE}
    ), cleared AS (
      DELETE FROM renewal_advice USING page WHERE certificate_id = page.id RETURNING certificate_id
    )
    SELECT id, certificate_id IS NOT NULL AS changed FROM page LEFT JOIN cleared ON certificate_id = id ORDER BY id`,
}

const LIST_ISSUERS: Statement = {
  name: 'renewal-list-issuers',
  text: "SELECT encode(fingerprint, 'hex') AS fingerprint FROM issuers ORDER BY created_at",
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'

interface Row {
  ord: number
  id: string
  account_id: string | null
  issuer_fingerprint: string
  names: string[]
  not_before: Date
  not_after: Date
  revoked_at: Date | null
  window_start: Date | null
  window_end: Date | null
  explanation_url: string | null
}

export function createRenewalStore(db: Database): RenewalStore {
  async function walk(statement: Statement, selection: AdviceSelection, more: readonly unknown[]): Promise<number> {
    const { serialNumbers, issuerFingerprint, issuedBefore } = selection
    const chosen = [serialNumbers ?? null, issuerFingerprint ?? null, issuedBefore ?? null]
    let changed = 0
    for (let after: string | undefined = FIRST_ID; after !== undefined; ) {
      const rows: { id: string; changed: boolean }[] = await db.query(statement, [after, ...chosen, ...more])
      changed += rows.filter((row) => row.changed).length
      after = rows.at(-1)?.id
    }
    return changed
  }

  return {
    findBySerial: batched(db, async (serialNumbers: readonly Buffer[]) => {
      const rows = await db.pipeline.run<Row>(FIND, [serialNumbers])
      const results: (RenewableCertificate | undefined)[] = serialNumbers.map(() => undefined)
      for (const row of rows) results[row.ord - 1] = decode(row)
      return results
    }),
    advise: (selection, { window, explanationUrl }) =>
      walk(ADVISE, selection, [window.start, window.end, explanationUrl ?? null]),
    clear: (selection) => walk(CLEAR, selection, []),
    async listIssuers() {
      return (await db.query<{ fingerprint: string }>(LIST_ISSUERS, [])).map((row) => row.fingerprint)
    },
  }
}

function decode(row: Row): RenewableCertificate {
  const window: RenewalWindow | undefined =
    row.window_start && row.window_end ? { start: row.window_start, end: row.window_end } : undefined
  return {
    id: row.id,
    accountId: row.account_id ?? undefined,
    issuerFingerprint: row.issuer_fingerprint,
    names: row.names,
    notBefore: row.not_before,
    notAfter: row.not_after,
    revokedAt: row.revoked_at ?? undefined,
    advice: window && { window, explanationUrl: row.explanation_url ?? undefined },
  }
}
