/**
 * The form in which `write.ts` takes over what a former ACME server has. A reader of one kind of server gives pages of it,
 * in an order that stays the same from run to run.
 */

import type { Note, Transaction } from '../admin/audit/audit-log.ts'
import type { AccountStatus } from '../domain/states.ts'
import type { JsonObject } from '../shared/lib/encoding.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import type { Database } from '../store/database.ts'

export interface ImportedAccount {
  /** The public key, in any spelling. */
  jwk: JsonObject
  contacts: readonly string[]
  status: AccountStatus
  createdAt: Date
  termsAgreed?: boolean
  /** URLs or paths of the account at the former server, without a query. */
  urls: readonly string[]
  /** The key id of the credential that the account was registered with. */
  credentialKid?: string | undefined
}

export interface ImportedCredential {
  kid: string
  hmacKey: Buffer
  label?: string | undefined
  createdAt: Date
  /** An account has used it, so only `acme.eab_reusable` lets others register with it. */
  isUsed?: boolean
  /** The credential takes no registration since then. */
  revokedAt?: Date | undefined
  /** The RFC 7638 thumbprint of the account that is bound to it, where the account does not name the credential. */
  boundThumbprint?: string | undefined
}

export interface ImportedCertificate {
  /** The certificate alone, without its chain. */
  der: Buffer
  /** RFC 7638 thumbprint of the key of its account; without one, nobody owns it here. */
  accountThumbprint?: string | undefined
  revokedAt?: Date | undefined
  /** CRLReason by number (RFC 5280 §5.3.1). */
  revocationReason?: number | undefined
}

/** An identifier, with the accounts by thumbprint and the credentials by kid that may order it. */
export interface ImportedIdentifier {
  type: IdentifierType
  value: string
  accounts: readonly string[]
  credentials: readonly string[]
}

/** A CSR profile, with the accounts by thumbprint and the credentials by kid that hold it. */
export interface ImportedProfile {
  name: string
  description?: string | undefined
  data: JsonObject
  accounts: readonly string[]
  credentials: readonly string[]
}

export interface ImportedAdministrator {
  username: string
  email: string
  role: string
  enabled: boolean
  passwordHash: string
}

/** An entry of the former audit log; the oldest comes first. */
export interface ImportedAuditEntry {
  /** The id tells two entries of one instant apart. */
  id: string
  at: Date
  action: string
  /** The name of the person who did it. */
  author: string | undefined
  ipAddress: string | undefined
  details: JsonObject
}

export interface ImportedKinds {
  credentials: ImportedCredential
  accounts: ImportedAccount
  identifiers: ImportedIdentifier
  profiles: ImportedProfile
  certificates: ImportedCertificate
  administrators: ImportedAdministrator
  audit_entries: ImportedAuditEntry
}
export type Kind = keyof ImportedKinds

/** The order of writing: a thing comes before the things that name it. */
export const KINDS = [
  'credentials',
  'accounts',
  'identifiers',
  'profiles',
  'certificates',
  'administrators',
  'audit_entries',
] as const satisfies readonly Kind[]

/** A reader reports what it cannot read, so that every row of the former server is counted. */
export interface Unreadable {
  /** The name by which an operator finds it at the former server. */
  name: string
  unreadable: string
}

/** A page is held in memory: 500 things are a good size. Each call begins at the first page. */
export type Pages<T> = () => AsyncIterable<readonly (T | Unreadable)[]>

/** A former server. Kinds that it does not have are left out. */
export type ImportSource = {
  /** Its kind, such as `step-ca`; the audit log names it. */
  name: string
} & { [K in Kind]?: Pages<ImportedKinds[K]> }

/** The result for one thing. `changed`: it was there, and follows the former server. */
export type Outcome = 'new' | 'changed' | 'known' | { name: string; skipped: string }

export interface KindReport {
  read: number
  new: number
  changed: number
  known: number
  skipped: number
  /** The first ones that were skipped. */
  first_skipped: { name: string; reason: string }[]
}

export type ImportReport = { [K in Kind]?: KindReport } & {
  /** Revocations of certificates that this run has recorded. */
  revocations: number
  /** The URLs of the first account. The operator compares the path with the URL that a client has. */
  first_account_urls?: readonly string[]
}

const PAGE = 500

/** Puts the things that a reader finds one by one into pages. */
export async function* inPages<T>(found: AsyncIterable<T>): AsyncGenerator<T[]> {
  let page: T[] = []
  for await (const one of found) {
    page.push(one)
    if (page.length < PAGE) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}

/** The data of the former server is not usable as a whole, so the import ends. The message says why, and what to do. */
export class UnusableSource extends Error {}

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
