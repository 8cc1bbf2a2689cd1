/**
 * Which certificates a bulk revocation or an incident is about, in SQL.
 *
 * A filter is read in windows of ids, so that no statement is longer for a larger table.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { CLOCKS_DIFFER_SECONDS } from '../../shared/lib/clocks.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import { hasIndex } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { CONDITIONS, hasSuffix, issuedAfter } from '../certificates/certificate-filter.ts'
import { REVOCATION_FILTERS } from '../resources/certificates.ts'
import { allGiven, type Conditions, storedFilterOf } from '../schemas.ts'

export const RevocationFilter = storedFilterOf(REVOCATION_FILTERS)
export type RevocationFilter = z.infer<typeof RevocationFilter>

/** The conditions of a list, but for those that another index finds, and the strict time. */
const REVOCATION_CONDITIONS: Conditions<RevocationFilter> = {
  ...CONDITIONS,
  account_id: ofAccount,
  eab_kid: ofCredential,
  domain_suffix: hasSuffix,
  serial_numbers: (numbers) => sql.fragment`c.serial_number IN (
    SELECT decode(s, 'hex') FROM unnest(${sql.array([...numbers], 'text')}) AS s)`,
  issued_after: issuedAfter('>'),
}

/** Through orders_account and certificates_imported: certificates have no index by account. */
function ofAccount(id: string) {
  return sql.fragment`c.account_id = ${id} AND c.id IN (
    SELECT o.certificate_id FROM orders o WHERE o.account_id = ${id} AND o.certificate_id IS NOT NULL
    UNION ALL SELECT i.id FROM certificates i WHERE i.account_id = ${id} AND i.order_id IS NULL)`
}

/** The same for all accounts of a credential. */
function ofCredential(kid: string) {
  const accounts = sql.fragment`
    SELECT a.id FROM accounts a JOIN eab_credentials e ON e.id = a.eab_credential_id WHERE e.kid = ${kid}`
  return sql.fragment`c.account_id IN (${accounts}) AND c.id IN (
    SELECT o.certificate_id FROM orders o WHERE o.account_id IN (${accounts}) AND o.certificate_id IS NOT NULL
    UNION ALL SELECT i.id FROM certificates i WHERE i.account_id IN (${accounts}) AND i.order_id IS NULL)`
}

export interface Window {
  afterId: string
  /** The last id of the window; undefined when nothing is behind it. */
  endId: string | undefined
}

export const FIRST_ID = '00000000-0000-0000-0000-000000000000'
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
/** A window takes about 20 ms where no row fits, 70 by the type of a key. */
const WINDOW_ROWS = 10_000
/** Rows are committed after their key was made: recovery may complete an issuance a day later. */
const LATE_MS = 86_400_000
const Id = z.object({ id: z.string() })

/** What an index finds is one window. */
export async function nextWindow(db: CommonQueryMethods, filter: RevocationFilter, afterId: string): Promise<Window> {
  if (await isIndexed(db, filter)) return { afterId, endId: undefined }
  const from = filter.issued_after && lowestUuidv7(Date.parse(filter.issued_after) - LATE_MS)
  const begin = from && from > afterId ? from : afterId
  const row = await db.maybeOne(rowsOf(Id)`
    SELECT id FROM certificates WHERE id > ${begin} AND id < ${upperBound(filter)}
     ORDER BY id OFFSET ${WINDOW_ROWS - 1} LIMIT 1`)
  return { afterId: begin, endId: row?.id }
}

async function isIndexed(db: CommonQueryMethods, filter: RevocationFilter): Promise<boolean> {
  if (filter.serial_numbers ?? filter.account_id ?? filter.eab_kid ?? filter.domain) return true
  return filter.spki_sha256 !== undefined && hasIndex(db, 'certificates_spki')
}

const upperBound = ({ issued_before }: RevocationFilter) =>
  issued_before === undefined ? LAST_ID : lowestUuidv7(Date.parse(issued_before) + LATE_MS)

/** Certificates of the window that have not expired, revoked ones included. */
export function matching(filter: RevocationFilter, { afterId, endId }: Window, until: Date) {
  // Serial numbers are found first; their account is then compared row by row.
  const ofRow = filter.serial_numbers && { account_id: CONDITIONS.account_id }
  const conditions = [
    sql.fragment`c.id > ${afterId} AND c.id <= ${endId ?? upperBound(filter)}`,
    // By the clocks of both times: a certificate may have been issued while one was ahead.
    sql.fragment`c.not_after > (SELECT slow_now())
      AND (c.issued_at <= ${until.toISOString()}::timestamptz OR c.issued_at > now() + make_interval(secs => ${CLOCKS_DIFFER_SECONDS}))`,
    ...allGiven({ ...REVOCATION_CONDITIONS, ...ofRow }, filter),
  ]
  return sql.fragment`certificates c WHERE ${sql.join(conditions, sql.fragment` AND `)}`
}
