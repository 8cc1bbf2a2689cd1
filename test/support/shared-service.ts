/**
 * One service for several test files, because a start takes three seconds of a processor.
 *
 * `npm test` imports the files that name the same service into one process (see `chosen-files.ts`), where they run one after
 * the other. Each file finds a database without the accounts, orders and administrators of the file before; the audit log,
 * the CRL's state and counters of metrics go on. A file that is run alone starts the service for itself.
 *
 * A file that changes what the whole service does, reads its log, or ends it starts one of its own: `startTestService()`.
 */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after } from 'node:test'
import { parse } from 'yaml'
import { adminConfig, TOKEN_SECRET } from './admin.ts'
import { lastLineOf } from './compared.ts'
import { emptyTables } from './database.ts'
import { freePort } from './free-port.ts'
import { type MailServer, type ReceivedMail, startMailServer } from './mail-server.ts'
import { CLIENT } from './oidc-client.ts'
import { startTestService, type TestService, type TestServiceOptions } from './service.ts'

export const TERMS_URL = 'https://ca.example.test/terms'

export const LARGEST_BODY = 6 * 1024 * 1024

export const CONSOLE_ORIGIN = 'https://console.corp.example'

let mails: Promise<MailServer> | undefined
let refusal: string | undefined

function mailServer(): Promise<MailServer> {
  mails ??= startMailServer({ onRcptTo: (_, __, done) => done(refusal === undefined ? null : new Error(refusal)) })
  return mails
}

/** What the mail server of 'mails' takes from now on. It outlives the files, since a service leaves alone one that was away. */
export async function mailsOf(): Promise<{ mails: ReceivedMail[]; refuse(sentence: string | undefined): void }> {
  const server = await mailServer()
  server.mails.length = 0
  const refuse = (sentence: string | undefined) => {
    refusal = sentence
  }
  return { mails: server.mails, refuse }
}

const oidcAt = (port: number) => ({
  issuer: `http://127.0.0.1:${port}`,
  client_id: CLIENT.id,
  client_secret: CLIENT.secret,
  roles: [
    { group: 'ca-admins', role: 'admin' },
    { group: 'ca-payments', role: 'registrar', scope: ['payments'] },
    { group: 'ca-readers', role: 'auditor' },
  ],
})

/** The built-in profile, and P-521, which it leaves out. */
const EVERY_CURVE = {
  key_usages: ['digital_signature', 'key_encipherment'],
  extended_key_usages: ['server_auth'],
  key_types: ['RSA', 'P-256', 'P-384', 'P-521'],
}

/** Their configurations hold what any of the files needs and none of them minds. */
const SHARED = {
  admin: {
    config: {
      ...adminConfig({ console_url: 'https://console.corp.example/api/console/' }),
      acme: { eab_reusable: true },
      ari: { enabled: true },
      challenges: { enabled: ['http-01', 'dns-01'], http01: { max_retries: 0 }, dns01: { max_retries: 0 } },
      crl: { enabled: true },
      metrics: { auth_required: true },
      security: { identifier_policy: { forbidden_domains: ['forbidden.test'] } },
      tos: { url: TERMS_URL, version: '2', require_agreement: true },
    },
  },
  acme: {
    config: {
      acme: { orders_page_size: 3 },
      admin_api: { token_secret: TOKEN_SECRET },
      ari: { enabled: true },
      ca: { profiles: { default: EVERY_CURVE } },
      challenges: { http01: { max_retries: 2 } },
      crl: { enabled: true },
      dns: {
        zones: [
          { zone: 'test', addresses: ['127.0.0.1'] },
          { zone: 'closed.test', addresses: ['127.0.0.2'] },
          { zone: 'unresolved.test', resolvers: ['127.0.0.1:9'] },
        ],
        timeout_seconds: 1,
      },
      security: { identifier_policy: { allow_ip: true } },
    },
  },
  allowlists: {
    config: {
      ...adminConfig(),
      acme: { eab_reusable: true },
      security: { identifier_policy: { enforce_account_allowlist: true, allow_ip: true } },
      server: { workers: 2 },
    },
  },
  credentials: {
    config: {
      acme: { eab_reusable: true },
      admin_api: { token_secret: TOKEN_SECRET },
      challenges: { enabled: ['http-01', 'dns-01'] },
      proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
      security: { identifier_policy: { allow_ip: true } },
    },
  },
  alarms: {
    fronts: 1,
    config: {
      crl: { enabled: true },
      notifications: { enabled: true, expiration_warning_days: [], expiration_check_interval_seconds: 1 },
      quotas: { enabled: true, max_orders_per_account_per_day: 3 },
      challenges: { http01: { max_retries: 1 }, backoff_base_seconds: 1 },
      security: { identifier_policy: { forbidden_domains: ['refused.test'] } },
    },
  },
  /** One front, since each has memory of its own; of 15 connections it has four, as many as the admin thread. */
  crowded: {
    config: {
      ...adminConfig({ max_body_bytes: LARGEST_BODY }),
      server: { workers: 1, overload: { enabled: true } },
      database: { max_connections: 15 },
    },
  },
  /** Two of this kind are on its database: the other one is made by `adminInstance()`. */
  identities: async () => ({
    config: {
      ...adminConfig({ console_url: `${CONSOLE_ORIGIN}/api/console/`, oidc: oidcAt(await freePort()) }),
      nonce: { store: 'database' },
      proxy: { enabled: true, trusted_proxies: ['127.0.0.1', '::1'] },
    },
  }),
  /** With a mail server: `mailsOf()`. */
  mails: async () => ({
    config: {
      ...adminConfig({ console_url: `${CONSOLE_ORIGIN}/api/console/` }),
      crl: { enabled: true },
      smtp: {
        enabled: true,
        host: '127.0.0.1',
        port: (await mailServer()).port,
        tls: 'none',
        from_address: 'ca@corp.example',
      },
      notifications: { enabled: true, max_retries: 0 },
      audit_retention: { enabled: true, max_age_days: 30, cleanup_interval_seconds: 1 },
    },
  }),
  'small pages': {
    config: {
      ...adminConfig({
        default_page_size: 2,
        password_length: 33,
        token_expiry_seconds: 1_234,
        initial_admin_email: 'first@example.com',
      }),
      server: { workers: 1, timeout: 10 },
      metrics: { enabled: true },
    },
  },
} as const satisfies Record<string, TestServiceOptions | (() => Promise<TestServiceOptions>)>

type SharedServiceName = keyof typeof SHARED

/** What threads of a running service rely on, and what an audit log does not allow. */
const KEPT = [
  'schema_migrations',
  'server_settings',
  'issuers',
  'nonce_%',
  'crl%',
  'event_consumers',
  'background_runs',
  'admin_audit_%',
  'audit_verifications',
  'signer_%',
  '%_progress',
]

const started = new Map<SharedServiceName, Promise<TestService>>()

// Here, so that it belongs to no suite and runs after the last file.
after(async () => {
  for (const service of started.values()) await (await service).dispose()
  await (await mails)?.close()
})

async function start(options: TestServiceOptions | (() => Promise<TestServiceOptions>)): Promise<TestService> {
  return startTestService(typeof options === 'function' ? await options() : options)
}

/** The caller does not end it. */
export async function sharedService(name: SharedServiceName): Promise<TestService> {
  const known = started.get(name)
  if (known) {
    await empty(await known)
    return known
  }
  const service = start(SHARED[name])
  started.set(name, service)
  return service
}

/** The sections of its configuration file. */
export function configOf({ folder }: Pick<TestService, 'folder'>): Record<string, Record<string, unknown>> {
  return parse(readFileSync(path.join(folder, 'config.yaml'), 'utf8'))
}

/** What the service has compared with its signer does not come back. */
async function empty(service: TestService): Promise<void> {
  const compared = lastLineOf(service)
  const marks = `UPDATE signer_marks SET certificates_seq = ${compared}, revocations_seq = ${compared}`
  await emptyTables(service.database, { kept: KEPT, with: marks })
}
