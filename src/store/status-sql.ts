/**
 * Statuses in SQL text, from the tables of `src/domain`; statements have no literals of their own
 * (test/state-literals.test.ts). The text is built once at load, so that statements stay constant and can be prepared.
 */

import {
  ACCOUNT,
  AUDIT_VERIFICATION,
  AUTHORIZATION,
  BULK_REVOCATION,
  CHALLENGE,
  CSR_ISSUANCE,
  type EventOf,
  STORED_ORDER,
  type StateTable,
  type StatusOf,
  statusAfter,
  statusesAllowing,
} from '../domain/states.ts'

/** `'valid'`; for statuses outside the tables of `src/domain`, such as those derived for readers. */
export const quoted = <S extends string>(status: S): `'${S}'` => `'${status}'`

function statusSql<T extends StateTable>(table: T) {
  type Status = StatusOf<T>
  /** Follows a column: `= 'valid'`, or `IN ('pending', 'valid')`. */
  const is = (...statuses: readonly Status[]): string =>
    statuses.length === 1 ? `= '${statuses[0]}'` : `IN (${statuses.map(quoted).join(', ')})`
  return {
    is,
    /** Follows a column, as `is` does. */
    isNot: (...statuses: readonly Status[]): string =>
      statuses.length === 1 ? `<> '${statuses[0]}'` : `NOT ${is(...statuses)}`,
    /** Guard of a write: the statuses that the table lets `event` change. */
    allows: (event: EventOf<T>): string => is(...statusesAllowing(table, event)),
    /** The status that `event` leads to, quoted. */
    after: (event: EventOf<T>): string => quoted(statusAfter(table, event)),
    /** A status, quoted. */
    of: (status: Status): string => quoted(status),
  }
}

export const account = statusSql(ACCOUNT)
/** The stored statuses, without those that are derived (domain/states.ts). */
export const order = statusSql(STORED_ORDER)
export const authorization = statusSql(AUTHORIZATION)
export const challenge = statusSql(CHALLENGE)
export const csrIssuance = statusSql(CSR_ISSUANCE)
export const bulkRevocation = statusSql(BULK_REVOCATION)
export const auditVerification = statusSql(AUDIT_VERIFICATION)
