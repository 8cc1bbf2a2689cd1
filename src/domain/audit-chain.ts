/**
 * The chain of the audit log: each entry's MAC covers the entry and the MAC before it.
 *
 * HMAC-SHA-256 over the previous MAC and a canonical text. Without the key, any change, removal or reordering of
 * entries shows. A cut tail shows against a head noted elsewhere.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { type WrittenBack, WrittenBackEntries } from './action-words.ts'

export const AUDIT_ACTIONS = [
  'auth.login',
  'auth.login_failed',
  'auth.locked',
  'auth.second_factor_asked',
  'auth.logout',
  'auth.confirm',
  'user.create',
  'user.update',
  'user.delete',
  'user.reset_password',
  'user.change_password',
  'user.end_session',
  'user.add_passkey',
  'user.rename_passkey',
  'user.remove_passkey',
  'user.reset_second_factor',
  'user.unlock',
  'user.import',
  'token.create',
  'token.revoke',
  'approval.request',
  'approval.approve',
  'approval.reject',
  'approval.withdraw',
  'approval.collect',
  'approval.emergency',
  'eab.create',
  'eab.revoke',
  'eab.update',
  'eab.pre_approve',
  'eab.add_identifier',
  'eab.remove_identifier',
  'eab.assign_csr_profile',
  'eab.unassign_csr_profile',
  'eab.reseal',
  'identifier.create',
  'identifier.delete',
  'identifier.add_account',
  'identifier.remove_account',
  'csr_profile.create',
  'csr_profile.update',
  'csr_profile.delete',
  'csr_profile.assign',
  'csr_profile.unassign',
  'account.update',
  'account.deactivate',
  'certificate.revoke',
  'certificate.bulk_revoke',
  'certificate.import',
  'import.write',
  'import.audit_entry',
  'incident.begin',
  'key.block',
  'key.unblock',
  'renewal.advise',
  'renewal.clear',
  'renewal.mute',
  'renewal.unmute',
  'renewal.notify',
  'crl.rebuild',
  'notification.retry',
  'notification.purge',
  'notification.test',
  'event.retry',
  'backend.revocation_given_up',
  'audit.export',
  'audit.cut',
  'maintenance.set',
  'signing.stop',
  'signing.resume',
  'terms.accept',
  'settings.reload',
  'database.reconcile',
  'database.lost_entry',
  'database.accept_lost',
] as const
export type AuditAction = (typeof AUDIT_ACTIONS)[number]

export type AuditDetails = { readonly [member: string]: unknown }

export interface AuditEntry {
  sequence: number
  id: string
  userId: string | undefined
  action: AuditAction
  targetUserId: string | undefined
  details: AuditDetails
  ipAddress: string | undefined
  /** To the millisecond. */
  createdAt: Date
}

export function auditMac(key: Buffer, previous: Buffer, entry: AuditEntry): Buffer {
  return createHmac('sha256', key).update(previous).update(canonicalEntry(entry)).digest()
}

/** The seal of a cut by retention: which entry was the last that left, and its MAC. */
export function cutSeal(key: Buffer, sequence: number, mac: Buffer): Buffer {
  return createHmac('sha256', key).update(`cut ${sequence} `).update(mac).digest()
}

/** The seal of a check's result: which check it was, when it ended, and what it found. */
export function verdictSeal(key: Buffer, id: string, finishedAt: Date, verdict: object): Buffer {
  const content = canonicalJson([id, finishedAt.toISOString(), verdict])
  return createHmac('sha256', key).update('verdict ').update(content).digest()
}

export const isSameMac = (a: Buffer, b: Buffer) => a.length === b.length && timingSafeEqual(a, b)

function canonicalEntry(entry: AuditEntry): string {
  const { sequence, id, userId, action, targetUserId, details, ipAddress, createdAt } = entry
  const fields = [sequence, id, userId ?? null, action, targetUserId ?? null, details, ipAddress ?? null]
  return canonicalJson([...fields, createdAt.toISOString()])
}

/** Members in the order of their names: `jsonb` does not keep the order in which they came. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  members.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`).join(',')}}`
}

/** Whether the chain is whole: entry by entry, in the order of their numbers. */
export interface NotedHead {
  sequence: number
  mac: Buffer
}

export interface AuditVerdict {
  /** How many were read. */
  entries: number
  head: NotedHead
  /** Retention deleted everything up to here; 0 for nothing. */
  cutSequence: number
  /** Sentences; at most `MOST_FAULTS`. None for a whole chain. */
  faults: readonly string[]
  /** Entries that a fail-over took and a comparison wrote back; undefined for none. */
  writtenBack: WrittenBack | undefined
}

const MOST_FAULTS = 20

const HEAD = /^(?<sequence>\d{1,15}):(?<mac>[0-9a-f]{64})?$/i

/** The log line has it so: `12:9f86…`. */
export const renderHead = ({ sequence, mac }: NotedHead) => `${sequence}:${mac.toString('hex')}`

export function parseHead(text: string): NotedHead | undefined {
  const { sequence, mac } = HEAD.exec(text.trim())?.groups ?? {}
  return sequence === undefined ? undefined : { sequence: Number(sequence), mac: Buffer.from(mac ?? '', 'hex') }
}

/** Where retention has cut the chain; sequence 0 for nowhere. */
type AuditCut = NotedHead & { seal: Buffer | undefined }

interface AuditCheckOptions {
  key: Buffer
  head: NotedHead
  cut: AuditCut
  /** Written down elsewhere: they find a cut tail that the database does not show. */
  noted: readonly NotedHead[]
}

export class AuditCheck {
  readonly #options: AuditCheckOptions
  readonly #faults: string[] = []
  readonly #writtenBack = new WrittenBackEntries()
  /** Noted heads that the log contradicts. */
  readonly #unfitHeads = new Map<NotedHead, string>()
  /** Entries that were written back explain these heads. */
  readonly #formerHeads = new Set<string>()
  #last: NotedHead
  #entries = 0
  #unfit = 0

  constructor(options: AuditCheckOptions) {
    const { key, head, cut, noted } = options
    this.#options = options
    this.#last = cut
    if (cut.sequence > 0 && !isSealed(cut, key)) this.#fault(`the cut at ${cut.sequence} was not made by retention`)
    for (const one of noted) {
      const { sequence } = one
      if (sequence > head.sequence) this.#unfitHeads.set(one, `${missing(head.sequence + 1, sequence)} at the end`)
      if (sequence < cut.sequence)
        this.#fault(`the noted head ${sequence} cannot be compared: retention has cut the log at ${cut.sequence}`)
    }
    this.#compareNoted(cut)
  }

  /** Entries in the order of their sequence numbers, from the cut on. */
  add(entry: AuditEntry & { mac: Buffer }): void {
    const { sequence, mac } = entry
    const expected = this.#last.sequence + 1
    this.#entries++
    if (sequence > expected) this.#fault(missing(expected, sequence - 1))
    else if (!isSameMac(mac, auditMac(this.#options.key, this.#last.mac, entry))) {
      this.#unfit++
      this.#fault(`entry ${sequence} was changed, or moved, or written under another key`)
    } else if (entry.action === 'database.lost_entry') this.#addWrittenBack(entry)
    this.#last = { sequence, mac }
    this.#compareNoted(this.#last)
  }

  verdict(): AuditVerdict {
    const { head, cut } = this.#options
    const last = this.#last
    for (const [noted, fault] of this.#unfitHeads) if (!this.#formerHeads.has(renderHead(noted))) this.#fault(fault)
    if (last.sequence < head.sequence) this.#fault(`${missing(last.sequence + 1, head.sequence)} at the end`)
    else if (last.sequence > head.sequence || !isSameMac(last.mac, head.mac))
      this.#fault(`the head, ${head.sequence}, is not that of the last entry, ${last.sequence}`)
    const isOtherKey = this.#unfit > 1 && this.#unfit === this.#entries
    const faults = isOtherKey ? ['no entry fits: the key is not the one the log was written under'] : this.#faults
    return { entries: this.#entries, head, cutSequence: cut.sequence, faults, writtenBack: this.#writtenBack.report() }
  }

  #compareNoted({ sequence, mac }: NotedHead): void {
    for (const noted of this.#options.noted)
      if (noted.sequence === sequence && !isSameMac(noted.mac, mac))
        this.#unfitHeads.set(noted, `entry ${sequence} is not the one of the noted head`)
  }

  /** A head that was noted before the fail-over belongs to the former entry, wherever this one is. */
  #addWrittenBack(entry: AuditEntry): void {
    this.#writtenBack.add(entry)
    const { sequence, mac } = entry.details
    if (this.#options.noted.some((one) => one.sequence === sequence)) this.#formerHeads.add(`${sequence}:${mac}`)
  }

  #fault(sentence: string): void {
    if (this.#faults.length < MOST_FAULTS) this.#faults.push(sentence)
  }
}

const isSealed = ({ sequence, mac, seal }: AuditCut, key: Buffer) =>
  seal !== undefined && isSameMac(seal, cutSeal(key, sequence, mac))

/** The end of the log, and its entry at a remembered place. */
export interface AuditTail {
  head: NotedHead
  cut: AuditCut
  /** Undefined when there is no entry. */
  rememberedMac: Buffer | undefined
  lastMac: Buffer | undefined
}

/** @returns why the end of the log is not what it was, or undefined */
export function tailFault(remembered: NotedHead | undefined, tail: AuditTail, key: Buffer): string | undefined {
  const { head, cut, rememberedMac, lastMac } = tail
  if (remembered && head.sequence < remembered.sequence)
    return `${missing(head.sequence + 1, remembered.sequence)} at the end`
  if (cut.sequence > 0 && !isSealed(cut, key)) return `the cut at ${cut.sequence} was not made by retention`
  if (head.sequence > cut.sequence && !(lastMac && isSameMac(lastMac, head.mac)))
    return `the head, ${head.sequence}, is not that of the last entry`
  if (!remembered || remembered.sequence === 0 || remembered.sequence <= cut.sequence) return undefined
  if (!rememberedMac) return missing(remembered.sequence, remembered.sequence)
  return isSameMac(rememberedMac, remembered.mac)
    ? undefined
    : `entry ${remembered.sequence} is another one than it was`
}

const missing = (first: number, last: number) =>
  first === last ? `entry ${first} is missing` : `the entries ${first} to ${last} are missing`
