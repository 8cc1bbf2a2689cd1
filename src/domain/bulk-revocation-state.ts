/** Life cycle of a bulk revocation: it lists its certificates, then revokes them page by page. */

import { keysOf } from '../shared/lib/keys.ts'

export type BulkRevocationStatus = 'matching' | 'revoking' | 'done' | 'refused' | 'cancelled'

type BulkRevocationEvent = 'listed' | 'overrun' | 'finish' | 'cancel'

/** `overrun`: more certificates match than were confirmed. A page that is revoked ends before its job is cancelled. */
export const BULK_REVOCATION = {
  matching: { listed: 'revoking', overrun: 'refused', cancel: 'cancelled' },
  revoking: { finish: 'done', cancel: 'cancelled' },
  done: {},
  refused: {},
  cancelled: {},
} as const satisfies Record<BulkRevocationStatus, Partial<Record<BulkRevocationEvent, BulkRevocationStatus>>>

export const BULK_REVOCATION_STATUSES = keysOf<BulkRevocationStatus>(BULK_REVOCATION)
