/**
 * One service for several test files, because a start takes three seconds of a processor.
 *
 * `npm test` imports the files that name the same service into one process (see `chosen-files.ts`), where they run one after
 * the other. Each file finds a database without the accounts, orders and administrators of the file before; the audit log,
 * the CRL's state and counters of metrics go on. A file that is run alone starts the service for itself.
 *
 * A file that ends the service, or wants of it what no other file can have, starts one of its own: `startTestService()`.
 * What SIGHUP changes (`reload.ts`) is put back by who has changed it, or set anew by each file (`rate-limits.ts`).
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
import { words } from './words.ts'

/** In `profiles` the second attempt comes so long after the first, the third twice that after the second. */
export const BACKOFF_SECONDS = 3

const ROOT = path.resolve(import.meta.dirname, '../../..')
/** Validator modules. */
export const FAULTY_VALIDATOR = `ext:${path.join(ROOT, 'test/fixtures/extensions/faulty.mjs')}`
export const ACCEPT_ALL = `ext:${path.join(ROOT, 'bench/accept-all.mjs')}`

/** The service at paths of its own has this URL. Its proxy is in the tests. */
export const EXTERNAL = 'https://ca.example.test/pki'

export const TERMS_URL = 'https://ca.example.test/terms'

const CAA_IDENTITIES = ['CA.example', 'ca2.example']

/** Configures name servers of `scripted-names.ts`, which only the files that need them load. */
async function namesConfig(dnspersist01: object = {}) {
  const { closeNames, scriptedNames } = await import('./scripted-names.ts')
  const { general, methods, inside } = await scriptedNames()
  const method = { resolvers: [methods.resolver], propagation_wait_seconds: 1 }
  const persist = { issuer_domain_names: ['CA.example.', 'second.example'], ...dnspersist01 }
  return {
    close: closeNames,
    dns: {
      resolvers: [general.resolver],
      // The name servers are in the process of the tests, which may stand still for a second.
      timeout_seconds: 6,
      retries: 0,
      zones: [
        { zone: 'test', addresses: ['127.0.0.1'] },
        { zone: 'inside.test', resolvers: [inside.resolver] },
      ],
    },
    methods: {
      dns01: method,
      dnsaccount01: method,
      dnspersist01: { ...method, propagation_wait_seconds: 0, timeout_seconds: 6, ...persist },
    },
  }
}

const EVERY_ALGORITHM = {
  allowed_algorithms: ['ES256', 'ES384', 'ES512', 'RS256', 'EdDSA'],
  allowed_ec_curves: ['P-256', 'P-384', 'P-521'],
}

export const FOR_SERVERS = { key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] }

export const LARGEST_BODY = 6 * 1024 * 1024

export const CONSOLE_ORIGIN = 'https://console.corp.example'

let mails: Promise<MailServer> | undefined
let refusal: string | undefined

function mailServer(): Promise<MailServer> {
  mails ??= startMailServer({ onRcptTo: (_, __, done) => done(refusal === undefined ? null : new Error(refusal)) })
  return mails
}

/** Collects what the mail server of 'mails' takes from now on. It outlives the files, since a service leaves alone one that was away. */
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

type SharedOptions = TestServiceOptions & {
  /** Closes what was started for the service, after its end. */
  close?: () => Promise<void>
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
      security: { ...EVERY_ALGORITHM, identifier_policy: { allow_ip: true } },
    },
  },
  'few connections': async () => ({
    fronts: 1,
    config: {
      api: { roots_path: '/roots.pem' },
      crl: { enabled: true, http_port: await freePort(), schedule: '*/2 * * * * *' },
      // Four are the supervisor's, so the one front has four.
      database: { max_connections: 8, reconcile: 'manual' },
      server: { overload: { max_connections: 40 } },
    },
  }),
  limits: async () => {
    const { close, methods } = await namesConfig()
    return {
      close,
      config: {
        ari: { enabled: true },
        challenges: { ...methods, enabled: ['http-01', 'dns-persist-01'] },
        // The tests speak for several clients: the last hop of X-Forwarded-For is who they are.
        proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
        security: EVERY_ALGORITHM,
        tos: { url: TERMS_URL, version: '2', require_agreement: true },
      },
    }
  },
  names: async () => {
    const { close, dns, methods } = await namesConfig({
      draft: '02',
      allow_subdomain_policy: true,
      issuer_domain_names: CAA_IDENTITIES,
    })
    return {
      fronts: 1,
      close,
      config: {
        dns,
        acme: { caa_identities: CAA_IDENTITIES, caa_unreachable_ok: ['corp.example'] },
        challenges: {
          ...methods,
          enabled: ['http-01', `${FAULTY_VALIDATOR}#Faulty`, ACCEPT_ALL, 'dns-01', 'dns-account-01', 'dns-persist-01'],
          extensions: { 'faulty-01': { timeout_seconds: 2, max_retries: 1 } },
          http01: { max_retries: 1 },
        },
        // It is the upstream of another service, too.
        ari: { enabled: true },
        ca: { profiles: { short: { ...FOR_SERVERS, validity_days: 1 } } },
        email: { validate_mx: true },
        // Nothing is remembered then: rows are changed by tests behind the service's back.
        nonce: { store: 'database' },
        security: { identifier_policy: { allow_ip: true } },
      },
    }
  },
  paths: async () => ({
    config: {
      ...adminConfig(),
      api: { base_path: '/acme', roots_path: '/roots.pem' },
      acme: {
        paths: { directory: '/v2/start', new_nonce: '/v2/nonce', new_account: '/v2/join', new_order: '/v2/buy' },
        website_url: 'https://www.example.test/',
        caa_identities: ['example.test'],
      },
      ca: {
        profiles: {
          default: { ...FOR_SERVERS, description: 'servers' },
          short: { ...FOR_SERVERS, description: 'a week', validity_days: 7 },
        },
      },
      ari: { enabled: true, path: '/ari/v1', revoked_window_seconds: null, max_retry_after_seconds: 7200 },
      crl: { enabled: true, http_port: await freePort() },
      proxy: { enabled: true, trusted_proxies: ['127.0.0.1', '192.0.2.0/24'] },
      server: { external_url: EXTERNAL },
    },
  }),
  profiles: {
    config: {
      admin_api: { token_secret: TOKEN_SECRET },
      ca: {
        profiles: {
          default: { ...FOR_SERVERS, description: 'For servers' },
          short: { ...FOR_SERVERS, description: 'Six days', validity_days: 6, max_validity_days: 7 },
          long: { ...FOR_SERVERS, description: 'Ninety days', validity_days: 90 },
          // The keys of the tests are P-256 keys, and those cannot encipher: the extension would be empty.
          free: { ...FOR_SERVERS, description: 'For anything', key_usages: ['key_encipherment'] },
        },
      },
      challenges: { http01: { max_retries: 3 }, backoff_base_seconds: BACKOFF_SECONDS },
      security: { identifier_policy: { forbidden_domains: ['*.forbidden.test'], public_suffix_list: 'builtin' } },
    },
  },
  console: {
    config: {
      ...adminConfig({ environment: { name: 'Test & Lab', color: 'red' } }),
      challenges: { http01: { max_retries: 0 } },
      crl: { enabled: true },
    },
  },
  'strict console': {
    config: {
      // Pages that are smaller than the console would like.
      ...adminConfig({
        approvals: { resume_signing: true, user_changes: true },
        default_page_size: 20,
        max_page_size: 20,
      }),
      acme: { eab_required: true },
      api: { roots_path: '/roots.pem' },
      security: { identifier_policy: { enforce_account_allowlist: true } },
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
  /** It has a mail server: `mailsOf()`. */
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
        console: false,
        default_page_size: 2,
        password_length: 33,
        token_expiry_seconds: 1_234,
        initial_admin_email: 'first@example.com',
      }),
      server: { workers: 1, timeout: 10 },
      metrics: { enabled: true },
    },
  },
} as const satisfies Record<string, SharedOptions | (() => Promise<SharedOptions>)>

export type SharedServiceName = keyof typeof SHARED

/** Threads of a running service rely on these tables, or an audit log does not allow their change. */
const KEPT = words`
  schema_migrations server_settings issuers nonce_% crl% event_consumers background_runs admin_audit_%
  audit_verifications database_identity signer_% %_progress
`

const closing: (() => Promise<void>)[] = []
const started = new Map<SharedServiceName, Promise<TestService>>()

// Here, so that it belongs to no suite and runs after the last file.
after(async () => {
  for (const service of started.values()) await (await service).dispose()
  for (const close of closing) await close()
  await (await mails)?.close()
})

async function start(entry: SharedOptions | (() => Promise<SharedOptions>)): Promise<TestService> {
  const { close, ...options } = typeof entry === 'function' ? await entry() : entry
  if (close) closing.push(close)
  return startTestService(options)
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
  const marks = `UPDATE signer_marks SET certificates_seq = ${compared}, revocations_seq = ${compared}, decisions_seq = ${compared}`
  await emptyTables(service.database, { kept: KEPT, with: marks })
}
