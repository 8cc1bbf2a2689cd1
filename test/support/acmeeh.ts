/**
 * The database of an ACMEEH 2.1 as far as an import reads it. The tables have its names and types; what fills them is
 * made here, in the forms that a real one was seen to have.
 */

import { randomBytes, randomUUID, scryptSync } from 'node:crypto'
import type { JsonWebKey } from './acme-client.ts'
import { thumbprintOf } from './acme-client.ts'
import { emptyDatabase, rowsIn, type TestDatabase } from './database.ts'

const TABLES = `
  CREATE SCHEMA admin;
  CREATE TABLE schema_migrations (version text PRIMARY KEY);
  INSERT INTO schema_migrations VALUES ('001_initial'), ('010_account_eab_link'), ('011_admin_password_changed_at');
  CREATE TABLE accounts (id uuid PRIMARY KEY, jwk_thumbprint varchar(128) UNIQUE NOT NULL, jwk jsonb NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'valid', tos_agreed boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(), eab_credential_id uuid);
  CREATE TABLE account_contacts (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), account_id uuid NOT NULL,
    contact_uri varchar(512) NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE certificates (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), account_id uuid NOT NULL,
    serial_number varchar(64) NOT NULL, pem_chain text NOT NULL, revoked_at timestamptz, revocation_reason smallint);
  CREATE TABLE admin.users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), username varchar(100) NOT NULL,
    email varchar(512) NOT NULL, password_hash varchar(256) NOT NULL, role varchar(20) NOT NULL,
    enabled boolean NOT NULL DEFAULT true, created_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE admin.audit_log (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), user_id uuid, action varchar(100) NOT NULL,
    target_user_id uuid, details jsonb, ip_address varchar(45), created_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE admin.eab_credentials (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kid varchar(255) NOT NULL,
    hmac_key varchar(512) NOT NULL, account_id uuid, label varchar(255) NOT NULL DEFAULT '',
    used boolean NOT NULL DEFAULT false, revoked boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE admin.allowed_identifiers (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    identifier_type varchar(10) NOT NULL, identifier_value varchar(255) NOT NULL);
  CREATE TABLE admin.account_allowed_identifiers (allowed_identifier_id uuid NOT NULL, account_id uuid NOT NULL);
  CREATE TABLE admin.eab_allowed_identifiers (allowed_identifier_id uuid NOT NULL, eab_credential_id uuid NOT NULL);
  CREATE TABLE admin.csr_profiles (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name varchar(255) NOT NULL,
    description text NOT NULL DEFAULT '', profile_data jsonb NOT NULL);
  CREATE TABLE admin.account_csr_profiles (account_id uuid PRIMARY KEY, csr_profile_id uuid NOT NULL);
  CREATE TABLE admin.eab_csr_profiles (eab_credential_id uuid PRIMARY KEY, csr_profile_id uuid NOT NULL);`

export interface FormerAcmeeh {
  /** `--from` takes this; the password goes into the environment. */
  address: string
  environment: Record<string, string>
  /** One statement, or several without values. */
  query<R extends object = Record<string, unknown>>(text: string, values?: unknown[]): Promise<R[]>
  /** @returns the account's id */
  addAccount(
    jwk: JsonWebKey,
    more?: { id?: string; contacts?: string[]; kid?: string; createdAt?: Date },
  ): Promise<string>
  addCertificate(accountId: string, pem: string, revoked?: { at: Date; reason: number }): Promise<void>
  drop(): Promise<void>
}

export async function formerAcmeeh(): Promise<FormerAcmeeh> {
  const database = await emptyDatabase()
  const query: FormerAcmeeh['query'] = (text, values) => rowsIn(database, text, values)
  await query(TABLES)
  return {
    ...addressOf(database),
    query,
    async addAccount(jwk, { id = randomUUID(), contacts = [], kid, createdAt = new Date() } = {}) {
      await query(
        `INSERT INTO accounts (id, jwk_thumbprint, jwk, created_at, eab_credential_id)
         VALUES ($1, $2, $3, $4, (SELECT id FROM admin.eab_credentials WHERE kid = $5))`,
        [id, thumbprintOf(jwk), JSON.stringify(jwk), createdAt, kid ?? null],
      )
      for (const contact of contacts)
        await query('INSERT INTO account_contacts (account_id, contact_uri) VALUES ($1, $2)', [id, contact])
      return id
    },
    async addCertificate(accountId, pem, revoked) {
      await query(
        `INSERT INTO certificates (account_id, serial_number, pem_chain, revoked_at, revocation_reason)
         VALUES ($1, $2, $3, $4, $5)`,
        [accountId, randomBytes(8).toString('hex'), pem, revoked?.at ?? null, revoked?.reason ?? null],
      )
    },
    drop: () => database.drop(),
  }
}

function addressOf({ connection: { host, port, user, password, database } }: TestDatabase) {
  const place = host.startsWith('/')
    ? `localhost/${database}?host=${encodeURIComponent(host)}&port=${port}`
    : `${host}:${port}/${database}`
  return {
    address: `postgres://${user}@${place}`,
    environment: { PGPASSWORD: password ?? '' },
  }
}

/** Hashes a password as werkzeug 3 does. */
export function werkzeugHash(password: string): string {
  const salt = randomBytes(12).toString('base64url')
  const digest = scryptSync(password, salt, 64, { N: 32_768, r: 8, p: 1, maxmem: 128 * 1024 * 1024 })
  return `scrypt:32768:8:1$${salt}$${digest.toString('hex')}`
}
