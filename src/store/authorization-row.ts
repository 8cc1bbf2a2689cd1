/** The row of an authorization, whole: for every statement that gives one back. */

import { type AuthorizationStatus, authorizationStatusesAllowing } from '../domain/authorization-state.ts'
import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'

const MAY_EXPIRE = authorizationStatusesAllowing('expire').map((status) => `'${status}'`)

/** Of the table as `z`. An authorization whose time is over reads as expired, whether or not its row says so already. */
export const STATUS_NOW = `CASE WHEN z.status IN (${MAY_EXPIRE}) AND z.expires_at <= now() THEN 'expired' ELSE z.status END`

/** Of the table as `z`. */
export const COLUMNS = `z.id, z.account_id, z.identifier_type, z.identifier_value, z.wildcard, z.expires_at, z.token, z.offered,
           z.attempts, ${STATUS_NOW} AS status`

export interface AuthorizationRow {
  id: string | null
  account_id: string
  identifier_type: IdentifierType
  identifier_value: string
  wildcard: boolean
  status: AuthorizationStatus
  expires_at: Date
  token: string
  offered: ChallengeType[]
  attempts: Partial<Record<ChallengeType, ChallengeAttempt>>
}

export function decode(row: AuthorizationRow): Authorization {
  return {
    id: row.id as string,
    accountId: row.account_id,
    identifier: { type: row.identifier_type, value: row.identifier_value },
    wildcard: row.wildcard,
    status: row.status,
    expiresAt: row.expires_at,
    token: row.token,
    offered: row.offered,
    attempts: row.attempts,
  }
}
