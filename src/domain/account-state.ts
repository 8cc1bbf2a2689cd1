/** Life cycle of accounts (RFC 8555 §7.1.6). Pure: no clock, no database. */

import { keysOf } from '../shared/lib/keys.ts'

export type AccountStatus = 'valid' | 'deactivated' | 'revoked'

type AccountEvent = 'deactivate' | 'revoke'

/** The client may `deactivate`, the operator `revoke`. */
export const ACCOUNT = {
  valid: { deactivate: 'deactivated', revoke: 'revoked' },
  deactivated: {},
  revoked: {},
} as const satisfies Record<AccountStatus, Partial<Record<AccountEvent, AccountStatus>>>

export const ACCOUNT_STATUSES = keysOf<AccountStatus>(ACCOUNT)
