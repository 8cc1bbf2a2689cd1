/**
 * The chain of the audit log: each entry's MAC covers the entry and the MAC before it.
 *
 * HMAC-SHA-256 over the previous MAC and a canonical text. Who cannot read the key can change,
 * remove or reorder entries only visibly; a cut tail shows against a head noted elsewhere.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'

export const AUDIT_ACTIONS = [
  'auth.login',
  'auth.login_failed',
  'auth.locked',
  'auth.logout',
  'user.create',
  'user.update',
  'user.delete',
  'user.reset_password',
  'user.unlock',
  'user.import',
  'token.create',
  'token.revoke',
  'eab.create',
  'eab.revoke',
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
  'account.deactivate',
  'certificate.revoke',
  'certificate.bulk_revoke',
  'certificate.import',
  'key.block',
  'key.unblock',
  'renewal.advise',
  'renewal.clear',
  'crl.rebuild',
  'notification.retry',
  'notification.purge',
  'event.retry',
  'backend.revocation_given_up',
  'audit.export',
  'audit.cut',
  'maintenance.set',
  'signing.stop',
  'signing.resume',
  'terms.accept',
  'settings.reload',
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
