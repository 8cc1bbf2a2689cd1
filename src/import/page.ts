/** How a page of one kind is written. */

import type { Note, Transaction } from '../admin/audit/audit-log.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import type { Database } from '../store/database.ts'
import type { Outcome } from './model.ts'

/** One transaction. */
export interface PageContext {
  tx: Transaction
  queries: Pick<Database, 'query'>
  note: Note
  source: string
  isDryRun: boolean
  /** Seals HMAC keys; undefined where no secret is configured. */
  box: SecretBox | undefined
  /** Kids of this run's credentials that did not come over: whoever has such a kid here is somebody else. */
  foreignKids: Set<string>
  /** What a dry run would have made of grants and administrators: contents by kind and name. */
  planned: Map<string, string>
  /** Revocations that were recorded. */
  revoked(count: number): void
}

/** @returns what became of each, in order */
export type WritePage<T> = (page: readonly T[], context: PageContext) => Promise<readonly Outcome[]>
