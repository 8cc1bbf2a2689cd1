/** The writers of all kinds write pages alike. */

import type { Note, Transaction } from '../admin/audit/audit-log.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import type { Database } from '../store/database.ts'
import type { Outcome } from './model.ts'

/** A page is one transaction. */
export interface PageContext {
  tx: Transaction
  queries: Pick<Database, 'query'>
  note: Note
  source: string
  isDryRun: boolean
  /** Seals HMAC keys; undefined where no secret is configured. */
  box: SecretBox | undefined
  /** Kids of this run's credentials that did not come over: a credential here with such a kid is another one. */
  foreignKids: Set<string>
  /** The grants and administrators that a dry run would have written: contents by kind and name. */
  planned: Map<string, string>
  /** Counts revocations that were recorded. */
  revoked(count: number): void
}

/** @returns the outcome of each thing, in order */
export type WritePage<T> = (page: readonly T[], context: PageContext) => Promise<readonly Outcome[]>
