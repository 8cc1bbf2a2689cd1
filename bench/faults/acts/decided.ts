/** The facts by which two databases are compared: what each permits, refuses and lists. */

/** A line a permission. A fail-over may lose some, and must add none. */
const PERMISSIONS = `
  WITH switches AS (SELECT key FROM server_settings WHERE (value->'enabled')::boolean)
  SELECT line FROM (
    SELECT 'signs' WHERE NOT EXISTS (SELECT FROM switches WHERE key = 'signing_stopped')
    UNION ALL SELECT 'takes orders' WHERE NOT EXISTS (SELECT FROM switches WHERE key = 'maintenance_mode')
    UNION ALL SELECT 'account ' || id || ' with key ' || thumbprint FROM accounts WHERE status = 'valid'
    UNION ALL SELECT 'account ' || id || ' is written to at ' || contact
      FROM accounts, unnest(contacts) AS contact WHERE status = 'valid'
    UNION ALL SELECT 'account ' || id || ' is of ' || tag FROM accounts, unnest(tags) AS tag
    UNION ALL SELECT 'authorization ' || id FROM authorizations WHERE status = 'valid'
    UNION ALL SELECT 'credential ' || kid FROM eab_credentials WHERE NOT revoked
    UNION ALL SELECT 'credential ' || kid || ' is of ' || tag FROM eab_credentials, unnest(tags) AS tag
    UNION ALL SELECT 'credential ' || eab_credential_id || ' for ' || identifier_id FROM eab_allowed_identifiers
    UNION ALL SELECT 'account ' || account_id || ' for ' || identifier_id FROM account_allowed_identifiers
    UNION ALL SELECT 'user ' || id || ' as ' || role || coalesce(' of ' || nullif(scope::text, '{}'), '') FROM admin_users WHERE enabled
    UNION ALL SELECT 'user ' || id || ' is written to at ' || email FROM admin_users WHERE enabled
    UNION ALL SELECT 'user ' || id || ' by password ' || md5(password_hash) FROM admin_users WHERE password_hash LIKE '$argon2%'
    UNION ALL SELECT 'session ' || id FROM admin_sessions WHERE expires_at > now()
    UNION ALL SELECT 'token ' || id FROM admin_api_tokens WHERE revoked_at IS NULL
    UNION ALL SELECT 'passkey ' || id FROM admin_passkeys
    UNION ALL SELECT 'approval ' || id || ' may be decided' FROM admin_approvals WHERE decision IS NULL
    UNION ALL SELECT 'account ' || id || ' without a profile' FROM accounts
      WHERE NOT EXISTS (SELECT FROM account_csr_profiles WHERE account_id = accounts.id)
    UNION ALL SELECT 'credential ' || kid || ' without a profile' FROM eab_credentials
      WHERE NOT EXISTS (SELECT FROM eab_csr_profiles WHERE eab_credential_id = eab_credentials.id)
    UNION ALL SELECT 'certificate ' || id || ' for ' || names::text FROM certificates WHERE revoked_at IS NULL
  ) AS permissions (line)`

/** A line a refusal. A fail-over must lose none. */
const REFUSALS = `
  SELECT line FROM (
    SELECT 'key ' || encode(spki_sha256, 'hex') FROM blocked_keys
    UNION ALL SELECT 'profile ' || id || ' refuses ' || n || ' names'
      FROM csr_profiles, generate_series(coalesce((profile_data->>'san_maximum')::integer, 20) + 1, 20) AS n
  ) AS refusals (line)`

/** Entries of the audit log, accounts, and what of both the database says that it has lost. The end of a job is answered to nobody. */
const TOLD = `
  SELECT id::text AS line FROM admin_audit_log WHERE details->>'phase' IS DISTINCT FROM 'done' UNION ALL SELECT id::text FROM lost_decisions
    UNION ALL SELECT details->>'account_id' FROM lost_decisions WHERE details ? 'account_id'
    UNION ALL SELECT id::text FROM accounts`

const NOT_BROUGHT_BACK = `SELECT act || ' ' || details::text AS line FROM lost_decisions WHERE details ? 'not_brought_back'`

export interface Decided {
  permits: ReadonlySet<string>
  refuses: ReadonlySet<string>
  /** Ids of entries and accounts that are there, or that are told to be lost. */
  told: ReadonlySet<string>
  /** Decisions that the service could not bring back. */
  failed: ReadonlySet<string>
}

type Ask = (text: string) => Promise<readonly { line: string }[]>

export async function readDecided(ask: Ask): Promise<Decided> {
  const lines = async (text: string) => new Set((await ask(text)).map(({ line }) => line))
  return {
    permits: await lines(PERMISSIONS),
    refuses: await lines(REFUSALS),
    told: await lines(TOLD),
    failed: await lines(NOT_BROUGHT_BACK),
  }
}

/** Restrictions that one database has and the other one has not. @returns a sentence each */
export function undoneIn(now: Decided, was: Decided): string[] {
  return [
    ...[...now.permits].filter((line) => !was.permits.has(line)).map((line) => `${line}: is permitted again`),
    ...[...was.refuses].filter((line) => !now.refuses.has(line)).map((line) => `${line}: is refused no more`),
    ...[...now.failed].filter((line) => !was.failed.has(line)).map((line) => `${line}: was not brought back`),
  ]
}

export const untoldIn = (now: Decided, was: Decided): string[] => [...was.told].filter((id) => !now.told.has(id))
