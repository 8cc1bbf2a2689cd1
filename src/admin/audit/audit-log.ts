/**
 * The audit log: what an administrator does and its entry are one transaction, which begins with
 * the author's authority, read and held.
 *
 * The chain is locked only when the work is done, so that administrators hardly wait for each other.
 */

import type { DatabasePool, DatabaseTransactionConnection } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import {
  type AuditAction,
  type AuditDetails,
  type AuditEntry,
  auditMac,
  type NotedHead,
} from '../../domain/audit-chain.ts'
import type { Decision } from '../../domain/decision.ts'
import { NotRecorded } from '../../services/decisions/decision-recorder.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { requireAuthority } from '../users/sessions.ts'
import { appendAuditEntry, lockAuditHead, moveAuditHead } from './audit-store.ts'

export type Transaction = DatabaseTransactionConnection

/**
 * Adds an entry to the transaction. Without a call nothing is logged: nothing was changed.
 * @param beside what its record has more than the entry (src/domain/decision.ts); no secret
 */
export type Note = (action: AuditAction, details?: AuditDetails, targetUserId?: string, beside?: AuditDetails) => void

export type Work<T> = (tx: Transaction, note: Note) => Promise<T>

/** `userId` is undefined for a failed login of an unknown user. */
type AuditAuthor = Pick<Actor, 'userId' | 'ipAddress'> &
  Pick<Partial<Actor>, 'username' | 'role' | 'scope' | 'sessionId' | 'apiTokenId' | 'operator'>

interface Noted {
  by: AuditAuthor
  action: AuditAction
  details: AuditDetails
  targetUserId: string | undefined
  beside: AuditDetails | undefined
}

/** Puts what was committed into a second place. Rejects when it is in none. */
export type RecordDecisions = (decisions: readonly Decision[]) => Promise<void>

/** @param note resolves to why they are in no second place */
export function recordThrough(note: (decisions: readonly Decision[]) => Promise<string | undefined>): RecordDecisions {
  return async (decisions) => {
    const reason = await note(decisions).catch((error: Error) => new NotRecorded(error.message).message)
    if (reason !== undefined) throw new AdminError('unavailable', reason)
  }
}

/** Another person's decision, or an emergency, lets an act happen. */
export interface Permit {
  /** The authority of this author counts. */
  author: AuditAuthor
  /** Begins the transaction of the act, so that both are committed or neither. */
  work: Work<void>
  /** In each entry of the act. */
  details: AuditDetails
}

/** The watch of the log's end. */
interface Remembering {
  /** After the commit of an entry. */
  remember(head: NotedHead): void
}

export class AuditLog {
  readonly #db: DatabasePool
  readonly #key: Buffer | undefined
  readonly #watch: Remembering | undefined
  readonly #record: RecordDecisions | undefined
  readonly #permit: Permit | undefined

  /**
   * @param key of the chain's HMAC; without one, which only a command may be, nothing is logged
   * @param record absent where what is written is no decision
   */
  constructor(
    db: DatabasePool,
    key: Buffer | undefined,
    watch?: Remembering,
    record?: RecordDecisions,
    permit?: Permit,
  ) {
    this.#db = db
    this.#key = key
    this.#watch = watch
    this.#record = record
    this.#permit = permit
  }

  /** The same log for one act, whose transaction begins with what permits it. */
  permitted(permit: Permit): AuditLog {
    return new AuditLog(this.#db, this.#key, this.#watch, this.#record, permit)
  }

  /**
   * Commits the work together with its entries, or neither, and puts them into a second place.
   *
   * @param before takes the locks that the work needs before the author's own rows
   * @throws AdminError unauthorized, forbidden when the author may no longer do this; unavailable when it is done, and the
   *   database alone has it
   */
  transaction<T>(author: AuditAuthor, work: Work<T>, before?: (tx: Transaction) => Promise<void>): Promise<T> {
    return this.#commit(
      author,
      work,
      async (tx) => {
        await before?.(tx)
        await requireAuthority(tx, this.#permit?.author ?? author)
      },
      author.userId !== undefined || author.operator !== undefined,
    )
  }

  /** For work that was begun with authority and continues without its author, such as a job. */
  continueWithoutAuthor<T>(author: AuditAuthor, work: Work<T>): Promise<T> {
    return this.#commit(author, work, async () => undefined, false)
  }

  async #commit<T>(
    author: AuditAuthor,
    work: Work<T>,
    begin: (tx: Transaction) => Promise<void>,
    isOfPerson: boolean,
  ): Promise<T> {
    let decisions: readonly Decision[] = []
    let head: NotedHead | undefined
    const result = await this.#db.transaction(async (tx) => {
      await begin(tx)
      const noted: Noted[] = []
      const noteBy =
        (by: AuditAuthor, common?: AuditDetails): Note =>
        (action, details, targetUserId, beside) => {
          noted.push({ by, action, details: { ...details, ...common }, targetUserId, beside })
        }
      if (this.#permit) await this.#permit.work(tx, noteBy(this.#permit.author))
      const done = await work(tx, noteBy(author, this.#permit?.details))
      const appended = noted.length > 0 && this.#key ? await this.#append(tx, this.#key, noted) : undefined
      head = appended?.head
      decisions = noted.map((one, at) => decisionOf(one, appended?.entries[at]))
      return done
    })
    if (head) this.#watch?.remember(head)
    // Called without decisions, too: a repeated act changes nothing, but must not succeed before its first try is recorded.
    if (isOfPerson) await this.#record?.(decisions)
    // Nobody waits for an answer; the recorder keeps what it could not place.
    else await this.#record?.(decisions).catch(() => undefined)
    return result
  }

  /** An entry alone, such as a failed login. */
  record(author: AuditAuthor, action: AuditAction, details: AuditDetails = {}, targetUserId?: string): Promise<void> {
    return this.transaction(author, async (_tx, note) => note(action, details, targetUserId))
  }

  async #append(tx: Transaction, key: Buffer, noted: readonly Noted[]): Promise<Appended> {
    const entries: Appended['entries'] = []
    let { sequence, mac } = await lockAuditHead(tx)
    const now = new Date()
    for (const { by, action, details, targetUserId } of noted) {
      sequence += 1
      const entry: AuditEntry = {
        sequence,
        action,
        targetUserId,
        id: uuidv7(now.getTime()),
        createdAt: now,
        userId: by.userId,
        ipAddress: by.ipAddress,
        details: storable({ ...details, ...wayOf(by) }) as AuditDetails,
      }
      mac = auditMac(key, mac, entry)
      await appendAuditEntry(tx, entry, mac)
      entries.push({ entry, mac })
    }
    const head = { sequence, mac }
    await moveAuditHead(tx, head)
    return { head, entries }
  }
}

interface Appended {
  head: NotedHead
  entries: { entry: AuditEntry; mac: Buffer }[]
}

function decisionOf({ by, action, details, beside }: Noted, appended?: Appended['entries'][number]): Decision {
  const { username, operator, userId } = by
  const decided = { act: action, by: username ?? operator ?? userId ?? 'the service' }
  if (!appended) {
    const now = new Date()
    const content = storable({ ...details, ...beside, ...wayOf(by) }) as AuditDetails
    return { id: uuidv7(now.getTime()), at: now.toISOString(), ...decided, details: content }
  }
  const { entry, mac } = appended
  const place = {
    sequence: entry.sequence,
    mac: mac.toString('hex'),
    id: entry.id,
    user_id: entry.userId ?? null,
    target_user_id: entry.targetUserId ?? null,
    ip_address: entry.ipAddress ?? null,
  }
  const content = { ...entry.details, ...(storable(beside ?? {}) as AuditDetails) }
  return { id: entry.id, at: entry.createdAt.toISOString(), ...decided, details: content, entry: place }
}

function wayOf({ apiTokenId, operator }: AuditAuthor): AuditDetails {
  return { ...(apiTokenId && { api_token_id: apiTokenId }), ...(operator && { operator }) }
}

/** `jsonb` takes neither U+0000 nor half a surrogate pair. */
function storable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/\0|\p{Cs}/gu, '\ufffd')
  if (value instanceof Date) return value.toISOString()
  if (Array.isArray(value)) return value.map(storable)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return Object.fromEntries(members.map(([name, member]) => [storable(name) as string, storable(member)]))
}
