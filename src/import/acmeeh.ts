/** ACMEEH's PostgreSQL (schema of version 2.1.0) as a server to import from. */

import { ProfileData } from '../admin/profiles/csr-profile-data.ts'
import { isAccountStatus } from '../domain/states.ts'
import type { JsonObject } from '../shared/lib/encoding.ts'
import { decodePem } from '../shared/pki/pem.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import type { FormerDatabase } from './former-database.ts'
import type {
  ImportedAccount,
  ImportedAdministrator,
  ImportedAuditEntry,
  ImportedCertificate,
  ImportedCredential,
  ImportedIdentifier,
  ImportedProfile,
  ImportSource,
  Pages,
  Unreadable,
} from './model.ts'
import { inPages, UnusableSource } from './model.ts'

/** The migrations that the statements below need. */
const NEWEST = '010_account_eab_link'

/**
 * @param basePath the path of its `server.external_url` and `api.base_path`; empty for none
 * @throws UnusableSource when the database has another schema than ACMEEH 2.1
 */
export async function acmeehSource(database: FormerDatabase, basePath: string): Promise<ImportSource> {
  if (!(await database.hasTable('schema_migrations')) || !(await database.hasTable('admin.eab_credentials')))
    throw new UnusableSource(
      'tables of ACMEEH are missing; is it its database, and may the role read the schema admin?',
    )
  const versions = new Set<string>()
  for await (const { version } of database.rows<{ version: string }>('SELECT version FROM schema_migrations'))
    versions.add(version)
  if (!versions.has(NEWEST))
    throw new UnusableSource('the database is of an ACMEEH before 2.1.0; start 2.1.0 once, which brings it up to date')

  const pages =
    <Row, T>(query: string, read: (row: Row) => T | Unreadable): Pages<T> =>
    () =>
      inPages(each(database.rows<Row>(query), read))
  return {
    name: 'acmeeh',
    credentials: pages(CREDENTIALS, readCredential),
    accounts: pages(ACCOUNTS, (row: AccountRow) => readAccount(row, basePath)),
    identifiers: pages(IDENTIFIERS, readIdentifier),
    profiles: pages(PROFILES, readProfile),
    certificates: pages(CERTIFICATES, readCertificate),
    administrators: pages(ADMINISTRATORS, (row: ImportedAdministrator) => row),
    audit_entries: pages(AUDIT_ENTRIES, readAuditEntry),
  }
}

async function* each<Row, T>(rows: AsyncIterable<Row>, read: (row: Row) => T): AsyncGenerator<T> {
  for await (const row of rows) yield read(row)
}

const CREDENTIALS = `
  SELECT kid, hmac_key, nullif(label, '') AS label, created_at, used, revoked FROM admin.eab_credentials ORDER BY kid`

interface CredentialRow {
  kid: string
  /** The text is base64url, with or without padding. */
  hmac_key: string
  label: string | null
  created_at: Date | number
  used: boolean
  revoked: boolean
}

/** PostgreSQL has infinite times, and a Date has not. A time that is not usable counts as now. */
const usable = (time: Date | number): Date => (time instanceof Date ? time : new Date())

function readCredential({ kid, hmac_key, label, created_at, used, revoked }: CredentialRow): ImportedCredential {
  return {
    kid,
    hmacKey: Buffer.from(hmac_key, 'base64url'),
    label: label ?? undefined,
    createdAt: usable(created_at),
    isUsed: used,
    // ACMEEH notes no time for it.
    ...(revoked && { revokedAt: usable(created_at) }),
  }
}

const ACCOUNTS = `
  SELECT a.id, a.jwk, a.status, a.tos_agreed, a.created_at, e.kid,
         ARRAY(SELECT c.contact_uri FROM account_contacts c WHERE c.account_id = a.id ORDER BY c.created_at, c.id) AS contacts
    FROM accounts a LEFT JOIN admin.eab_credentials e ON e.id = a.eab_credential_id
   ORDER BY a.id`

interface AccountRow {
  id: string
  jwk: JsonObject
  status: string
  tos_agreed: boolean
  created_at: Date | number
  kid: string | null
  contacts: string[]
}

function readAccount(row: AccountRow, basePath: string): ImportedAccount | Unreadable {
  if (!isAccountStatus(row.status)) return { name: `account ${row.id}`, unreadable: `its status is ${row.status}` }
  return {
    jwk: row.jwk,
    contacts: row.contacts,
    status: row.status,
    createdAt: usable(row.created_at),
    termsAgreed: row.tos_agreed,
    urls: [`${basePath}/acct/${row.id}`],
    credentialKid: row.kid ?? undefined,
  }
}

/** Accounts by thumbprint, credentials by kid. */
const holders = (accounts: string, credentials: string, is: string) => `
  ARRAY(SELECT a.jwk_thumbprint::text FROM ${accounts} g JOIN accounts a ON a.id = g.account_id WHERE g.${is}) AS accounts,
  ARRAY(SELECT e.kid::text FROM ${credentials} g JOIN admin.eab_credentials e ON e.id = g.eab_credential_id WHERE g.${is}) AS credentials`

interface Holders {
  accounts: string[]
  credentials: string[]
}

const IDENTIFIERS = `
  SELECT i.identifier_type AS type, i.identifier_value AS value,
         ${holders('admin.account_allowed_identifiers', 'admin.eab_allowed_identifiers', 'allowed_identifier_id = i.id')}
    FROM admin.allowed_identifiers i ORDER BY i.id`

const readIdentifier = (row: Holders & { type: IdentifierType; value: string }): ImportedIdentifier => row

const PROFILES = `
  SELECT p.name, nullif(p.description, '') AS description, p.profile_data,
         ${holders('admin.account_csr_profiles', 'admin.eab_csr_profiles', 'csr_profile_id = p.id')}
    FROM admin.csr_profiles p ORDER BY p.id`

interface ProfileRow extends Holders {
  name: string
  description: string | null
  profile_data: JsonObject
}

/** Members that are unknown here had no effect there either. */
function readProfile({ name, description, profile_data, accounts, credentials }: ProfileRow): ImportedProfile {
  const data = Object.fromEntries(Object.entries(profile_data).filter(([member]) => member in ProfileData.shape))
  return { name, description: description ?? undefined, data, accounts, credentials }
}

const CERTIFICATES = `
  SELECT c.serial_number, c.pem_chain, a.jwk_thumbprint AS thumbprint, c.revoked_at, c.revocation_reason
    FROM certificates c JOIN accounts a ON a.id = c.account_id ORDER BY c.id`

interface CertificateRow {
  serial_number: string
  /** The certificate first. */
  pem_chain: string
  thumbprint: string
  revoked_at: Date | number | null
  revocation_reason: number | null
}

function readCertificate(row: CertificateRow): ImportedCertificate | Unreadable {
  try {
    const [first] = decodePem(row.pem_chain)
    if (!first) throw new Error('it is empty')
    return {
      der: first.der,
      accountThumbprint: row.thumbprint,
      revokedAt: row.revoked_at === null ? undefined : usable(row.revoked_at),
      revocationReason: row.revocation_reason ?? undefined,
    }
  } catch (error) {
    return { name: row.serial_number, unreadable: `its pem_chain holds no certificate: ${(error as Error).message}` }
  }
}

const ADMINISTRATORS = `
  SELECT username, email, role, enabled, password_hash AS "passwordHash" FROM admin.users ORDER BY created_at, id`

// By the millisecond, as a time has no more digits here.
const AUDIT_ENTRIES = `
  SELECT l.id, l.action, coalesce(l.details, '{}') AS details, l.ip_address, l.created_at, u.username, t.username AS target
    FROM admin.audit_log l LEFT JOIN admin.users u ON u.id = l.user_id LEFT JOIN admin.users t ON t.id = l.target_user_id
   ORDER BY date_trunc('milliseconds', l.created_at), l.id`

interface AuditRow {
  id: string
  action: string
  details: JsonObject
  ip_address: string | null
  created_at: Date | number
  username: string | null
  target: string | null
}

function readAuditEntry({
  id,
  action,
  details,
  ip_address,
  created_at,
  username,
  target,
}: AuditRow): ImportedAuditEntry {
  return {
    id,
    at: usable(created_at),
    action,
    author: username ?? undefined,
    ipAddress: ip_address ?? undefined,
    details: target === null ? details : { ...details, target_username: target },
  }
}
