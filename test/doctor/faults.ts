/** Faults of an installation, each as an operator or time makes it, and what `chancery doctor` has to say about it. */

import { chmodSync, chownSync, mkdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { migrate } from '../../src/store/schema/migrate.ts'
import { settingsFor } from '../store/support.ts'
import { freePort } from '../support/free-port.ts'
import { startDisk } from '../support/small-disk.ts'
import { a, type Script, SERVFAIL } from '../workers/scripted-dns.ts'
import { type CertificateOptions, makeList } from './certificates.ts'
import { startPooler } from './pooler.ts'
import type { Changes, Stand } from './stand.ts'

type Undo = () => unknown

export interface Fault {
  name: string
  /** Of the check that finds it. */
  id: string
  /** What the mend names: a key, a file or a command. */
  mend: RegExp
  /** Changes a copy of the configuration, which the doctor is given. */
  config?: Changes | ((stand: Stand) => Changes | Promise<Changes>)
  signer?: Changes | ((stand: Stand) => Changes)
  proxy?: (text: string, stand: Stand) => string | Promise<string>
  sql?: { plant: string[]; undo: string[] }
  dns?: Script
  plant?: (stand: Stand) => Undo | Promise<Undo>
  args?: readonly string[]
  prefix?: readonly string[]
  /** Other checks see nothing beside it, and say so. */
  blinds?: true
}

const mode = (file: (stand: Stand) => string, bits: number) => (stand: Stand) => {
  const before = statSync(file(stand)).mode & 0o777
  chmodSync(file(stand), bits)
  return () => chmodSync(file(stand), before)
}

const at = (stand: Stand, name: string) => path.join(stand.folder, name)

const FILES: Fault[] = [
  {
    name: 'everybody may change the configuration',
    id: 'files.configuration',
    mend: /chmod 640 .*config\.yaml/,
    plant: mode(({ files }) => files.config, 0o662),
  },
  {
    name: 'everybody may read a secret in the configuration',
    id: 'configuration.intended',
    mend: /token_secret/,
    plant: mode(({ files }) => files.config, 0o644),
  },
  {
    name: 'everybody may read the secret of the signer',
    id: 'files.signer-secret',
    mend: /chmod 640 .*signer\.secret/,
    plant: mode(({ files }) => files.secret, 0o644),
    blinds: true,
  },
  {
    name: 'the group may read the key of the issuer',
    id: 'files.issuer-key',
    mend: /chmod 600 .*issuer\.key/,
    plant: mode(({ files }) => files.key, 0o640),
  },
  {
    name: 'the key of the issuer belongs to the service',
    id: 'files.issuer-key',
    mend: /chown chancery-signer .*issuer\.key/,
    plant({ files }) {
      const { uid, gid } = statSync(files.key)
      chownSync(files.key, 64_101, gid)
      return () => chownSync(files.key, uid, gid)
    },
  },
  {
    name: 'everybody may read the passphrase of a key',
    id: 'files.pin',
    mend: /chmod 600 .*passphrase/,
    signer(stand) {
      writeFileSync(at(stand, 'passphrase'), 'secret', { mode: 0o644 })
      return { 'issuers.0.key.passphrase_file': at(stand, 'passphrase') }
    },
  },
  {
    name: 'everybody may read the variables of the unit',
    id: 'files.environment',
    mend: /chmod 600 .*service\.env/,
    plant(stand) {
      writeFileSync(at(stand, 'service.env'), 'DB_PASSWORD=x\n', { mode: 0o644 })
      return () => rmSync(at(stand, 'service.env'))
    },
  },
  {
    name: 'the folder of the socket is open',
    id: 'files.socket',
    mend: /chmod 750 .*run/,
    plant: mode((stand) => at(stand, 'run'), 0o755),
  },
  {
    name: 'others may write into the folder of the audit chain',
    id: 'files.state',
    mend: /chmod 700 .*signer/,
    plant: mode((stand) => at(stand, 'signer'), 0o770),
  },
]

const CONFIGURATION: Fault[] = [
  {
    name: 'a key is misspelt',
    id: 'configuration.valid',
    mend: /--validate-only/,
    config: { 'server.prot': 1 },
    blinds: true,
  },
  {
    name: 'a file is not there',
    id: 'configuration.files',
    mend: /acme\.eab_key_file/,
    config: { 'acme.eab_key_file': '/nowhere.key' },
  },
  {
    name: 'a key of the signer is misspelt',
    id: 'configuration.signer',
    mend: /chancery-signer --validate-only/,
    signer: { sokcet: '/x' },
    blinds: true,
  },
  {
    name: 'the configuration was changed and the service not restarted',
    id: 'configuration.running',
    mend: /systemctl restart chancery/,
    plant({ files }) {
      const { atime, mtime } = statSync(files.config)
      utimesSync(files.config, atime, new Date(Date.now() + 60_000))
      return () => utimesSync(files.config, atime, mtime)
    },
  },
]

const SERVICE: Fault[] = [
  {
    name: 'signing is stopped',
    id: 'service.switches',
    mend: /signing resume/,
    sql: {
      plant: [`INSERT INTO server_settings (key, value) VALUES ('signing_stopped', '{"enabled": true, "by": "ops"}')`],
      undo: [`DELETE FROM server_settings WHERE key = 'signing_stopped'`],
    },
  },
  {
    name: 'maintenance mode was forgotten',
    id: 'service.switches',
    mend: /maintenance off/,
    sql: {
      plant: [`INSERT INTO server_settings (key, value) VALUES ('maintenance_mode', '{"enabled": true, "by": "ops"}')`],
      undo: [`DELETE FROM server_settings WHERE key = 'maintenance_mode'`],
    },
  },
  {
    name: 'a background task fails',
    id: 'service.tasks',
    mend: /workers/,
    sql: {
      plant: [
        `INSERT INTO background_runs (task, instance_id, last_run_at, next_run_at, errors, last_error, failed_at) VALUES ('planted', 1, now(), now(), 1, 'disk full', now())`,
      ],
      undo: [`DELETE FROM background_runs WHERE task = 'planted'`],
    },
  },
  {
    name: 'the service runs on another database',
    id: 'service.instances',
    mend: /database\.database/,
    async config(stand) {
      await stand.asSuperuser('DROP DATABASE IF EXISTS other', 'CREATE DATABASE other OWNER chancery')
      await migrate(settingsFor({ host: '127.0.0.1', port: stand.serverPort, user: 'chancery', database: 'other' }, 1))
      return { 'database.database': 'other' }
    },
    blinds: true,
  },
  {
    name: 'more files are wanted than may be open',
    id: 'service.descriptors',
    mend: /LimitNOFILE=/,
    // In the file itself, whose process is found by its name.
    plant: async (stand) => stand.replaceConfig({ 'server.overload.max_connections': 60_000_000 }),
  },
]

const alter = (name: string, value: string) => ({
  plant: [`ALTER SYSTEM SET ${name} = '${value}'`, 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.3)'],
  undo: [`ALTER SYSTEM RESET ${name}`, 'SELECT pg_reload_conf()', 'SELECT pg_sleep(0.3)'],
})

const DATABASE: Fault[] = [
  {
    name: 'synchronous_commit is off',
    id: 'database.durable',
    mend: /synchronous_commit = on/,
    sql: {
      plant: ['ALTER ROLE chancery SET synchronous_commit = off'],
      undo: ['ALTER ROLE chancery RESET synchronous_commit'],
    },
  },
  { name: 'autovacuum is off', id: 'database.vacuum', mend: /autovacuum = on/, sql: alter('autovacuum', 'off') },
  {
    name: 'commits wait for a replica that is not there',
    id: 'database.replication',
    mend: /synchronous_standby_names/,
    sql: alter('synchronous_standby_names', 'replica1'),
  },
  {
    name: 'a replica was removed, and its slot was not',
    id: 'database.slots',
    mend: /pg_drop_replication_slot\('gone'\)/,
    sql: {
      plant: [`SELECT pg_create_physical_replication_slot('gone', true)`],
      undo: [`SELECT pg_drop_replication_slot('gone')`],
    },
  },
  {
    name: 'the build of an index was cut off',
    id: 'database.indexes',
    mend: /REINDEX INDEX CONCURRENTLY crls_pkey/,
    sql: {
      plant: [`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'crls_pkey'::regclass`],
      undo: [`UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'crls_pkey'::regclass`],
    },
  },
  {
    name: 'the role may not read a table',
    id: 'database.rights',
    mend: /Another owner/,
    sql: { plant: ['REVOKE SELECT ON csr_profiles FROM chancery'], undo: ['GRANT SELECT ON csr_profiles TO chancery'] },
  },
  {
    name: 'a migration is missing',
    id: 'database.schema',
    mend: /db migrate/,
    sql: {
      plant: [
        'CREATE TABLE kept AS SELECT * FROM schema_migrations WHERE version = 12',
        'DELETE FROM schema_migrations WHERE version = 12',
      ],
      undo: ['INSERT INTO schema_migrations SELECT * FROM kept', 'DROP TABLE kept'],
    },
  },
  {
    name: 'PostgreSQL has no room for all connections',
    id: 'database.connections',
    mend: /max_connections = \d+/,
    config: { 'database.max_connections': 200 },
  },
  {
    name: 'PostgreSQL does not know the role',
    id: 'database.reachable',
    mend: /database\.user/,
    config: { 'database.user': 'chancey' },
    blinds: true,
  },
  {
    name: 'pgbouncer shares sessions',
    id: 'database.sessions',
    mend: /pool_mode = session/,
    config: async (stand) => ({ 'database.port': (await startPooler(stand)).port }),
    blinds: true,
  },
]

const SIGNER: Fault[] = [
  {
    name: 'the policy is shorter than the profile',
    id: 'signer.validity',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_validity_days': 30 },
  },
  {
    name: 'the policy lacks a kind of key',
    id: 'signer.key-types',
    mend: /key_types/,
    signer: { 'issuers.0.policy.key_types': ['RSA'] },
  },
  {
    name: 'the policy lacks a usage',
    id: 'signer.usages',
    mend: /policy/,
    signer: { 'issuers.0.policy.extended_key_usages': ['client_auth'] },
  },
  {
    name: 'the policy permits other names',
    id: 'signer.names',
    mend: /permitted/,
    signer: { 'issuers.0.policy.permitted.dns': ['corp.example'] },
  },
  {
    name: 'the policy permits other URLs of lists',
    id: 'signer.crl',
    mend: /ca\.crl_url/,
    signer: { 'issuers.0.policy.crl_urls': ['http://crl.corp.test/'] },
  },
  {
    name: 'the policy permits shorter lists',
    id: 'signer.crl',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_crl_validity_days': 0.5 },
  },
  {
    name: 'the policy permits no early start',
    id: 'signer.start',
    mend: /policy/,
    signer: { 'issuers.0.policy.max_start_offset_days': 1 },
  },
  {
    name: 'the name of the service’s own certificate is not permitted',
    id: 'signer.own-names',
    mend: /policy/,
    config: (stand) => ({
      'server.tls': {
        cert_path: at(stand, 'own.pem'),
        key_path: at(stand, 'own.key'),
        self_issued_names: ['acme.corp.example'],
      },
    }),
  },
  {
    name: 'a profile names an issuer that is not there',
    id: 'signer.profiles',
    mend: /add the issuer/,
    config: { 'ca.profiles': { short: { issuer: ['short-lived'] } } },
  },
  {
    name: 'the secrets of service and signer differ',
    id: 'signer.reachable',
    mend: /secret_file/,
    config(stand) {
      writeFileSync(at(stand, 'other.secret'), 'another secret that has more than thirty-two bytes\n', { mode: 0o600 })
      return { 'ca.signer.secret_file': at(stand, 'other.secret') }
    },
    blinds: true,
  },
]

/** The wrapper `faketime` trips over what a killed process of the same number has left behind. */
const LIBRARY = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketime.so.1`
const AHEAD = ['env', `LD_PRELOAD=${LIBRARY}`, 'FAKETIME=+10m']

const CLOCK: Fault[] = [
  { name: 'the clock of this host is ahead', id: 'clock.database', mend: /timedatectl/, prefix: AHEAD, blinds: true },
  { name: 'the clock of the proxy is behind', id: 'clock.proxy', mend: /timedatectl/, prefix: AHEAD, blinds: true },
]

const LOCATION = /location \/ \{\n\s+proxy_pass http:\/\/chancery;/
const inLocation = (lines: string) => (text: string) =>
  replaceOnce(text, LOCATION, `location / {\n${lines}\nproxy_pass http://chancery;`)
const without =
  (line: string, by = '') =>
  (text: string) =>
    replaceOnce(text, line, by)

function replaceOnce(text: string, from: string | RegExp, to: string): string {
  const changed = text.replace(from, () => to)
  if (changed === text) throw new Error(`the example has no ${from}`)
  return changed
}

const PROXY: Fault[] = [
  {
    name: 'the proxy speaks HTTP/1.0',
    id: 'proxy.http-version',
    mend: /proxy_http_version 1\.1/,
    proxy: without('proxy_http_version 1.1;', 'proxy_http_version 1.0;'),
    blinds: true,
  },
  {
    name: 'the proxy leads elsewhere',
    id: 'proxy.reachable',
    mend: /where the proxy sends requests/,
    proxy: (text, { ports }) => text.replaceAll(`127.0.0.1:${ports.service}`, '127.0.0.1:9'),
    blinds: true,
  },
  {
    name: 'Replay-Nonce is stripped',
    id: 'proxy.replay-nonce',
    mend: /Replay-Nonce/,
    proxy: inLocation('proxy_hide_header Replay-Nonce;'),
  },
  {
    name: 'new-nonce is cached',
    id: 'proxy.replay-nonce',
    mend: /proxy_cache off/,
    proxy: (text, { folder }) =>
      replaceOnce(
        inLocation('proxy_cache c; proxy_cache_valid any 1m; proxy_ignore_headers Cache-Control;')(text),
        'events {}\n    http {',
        `events {}\n http { proxy_cache_path ${folder}/cache keys_zone=c:1m;`,
      ),
  },
  { name: 'Link is stripped', id: 'proxy.link', mend: /Link/, proxy: inLocation('proxy_hide_header Link;') },
  {
    name: 'Retry-After is stripped',
    id: 'proxy.retry-after',
    mend: /Retry-After/,
    proxy: inLocation('proxy_hide_header Retry-After;'),
  },
  {
    name: 'Cache-Control is stripped',
    id: 'proxy.cache-control',
    mend: /Cache-Control/,
    proxy: inLocation('proxy_hide_header Cache-Control;'),
  },
  {
    name: 'requests get another Content-Type',
    id: 'proxy.signed-request',
    mend: /Content-Type/,
    proxy: without(
      'proxy_set_header Host $host;',
      'proxy_set_header Host $host; proxy_set_header Content-Type application/json;',
    ),
  },
  {
    name: 'the proxy takes short requests only',
    id: 'proxy.body-size',
    mend: /client_max_body_size/,
    proxy: inLocation('client_max_body_size 4k;'),
  },
  {
    name: 'the proxy refuses HEAD',
    id: 'proxy.head',
    mend: /HEAD/,
    proxy: inLocation('if ($request_method = HEAD) { return 405; }'),
  },
  {
    name: 'the proxy has error pages of its own',
    id: 'proxy.problems',
    mend: /proxy_intercept_errors off/,
    proxy: inLocation('proxy_intercept_errors on; error_page 404 /none.html;'),
  },
  {
    name: 'the proxy does not tell the address',
    id: 'proxy.client-address',
    mend: /X-Forwarded-For/,
    proxy: without('proxy_set_header X-Forwarded-For $remote_addr;', 'proxy_set_header X-Forwarded-For "";'),
  },
  {
    name: 'the proxy passes on the address that a client claims',
    id: 'proxy.client-address',
    mend: /X-Forwarded-For/,
    proxy: without(
      'proxy_set_header X-Forwarded-For $remote_addr;',
      'proxy_set_header X-Forwarded-For $http_x_forwarded_for;',
    ),
  },
  {
    name: 'the proxy does not tell the scheme',
    id: 'proxy.scheme',
    mend: /X-Forwarded-Proto/,
    proxy: without('proxy_set_header X-Forwarded-Proto $scheme;', 'proxy_set_header X-Forwarded-Proto "";'),
  },
  {
    name: 'the public URL was changed in the file only',
    id: 'proxy.directory',
    mend: /restart the service/,
    config: ({ ports }) => ({ 'server.external_url': `https://127.0.0.1:${ports.https}` }),
  },
]

const withCertificate = (options: CertificateOptions) => async (text: string, stand: Stand) =>
  text.replaceAll(`${stand.folder}/both.pem`, await stand.certificate('planted', options))

const TLS: Fault[] = [
  {
    name: 'the certificate has expired',
    id: 'tls.expiry',
    mend: /renew it/,
    proxy: withCertificate({ daysAgo: 40, days: 30 }),
  },
  {
    name: 'the certificate ends tomorrow',
    id: 'tls.expiry',
    mend: /renew it/,
    proxy: withCertificate({ daysAgo: 59, days: 60 }),
  },
  {
    name: 'the certificate is for another name',
    id: 'tls.name',
    mend: /server\.external_url/,
    proxy: withCertificate({ host: 'acme.corp.test' }),
  },
  { name: 'the chain is not sent', id: 'tls.chain', mend: /whole chain/, proxy: withCertificate({ chain: false }) },
  {
    name: 'the certificate is self-signed',
    id: 'tls.chain',
    mend: /trust the root/,
    proxy: withCertificate({ self: true }),
  },
]

const LISTS = /location \/crl\/ \{\n\s+proxy_pass http:\/\/chancery;/
const ofLists = (lines: string) => (text: string) => replaceOnce(text, LISTS, `location /crl/ {\n${lines}`)

/** Another list in place of the service's. */
const withList = (options: Parameters<typeof makeList>[1]) => async (text: string, stand: Stand) => {
  await makeList(stand.folder, options)
  return ofLists(`alias ${stand.folder}/lists/; default_type application/pkix-crl;`)(text)
}

const CRL: Fault[] = [
  {
    name: 'lists are redirected to https',
    id: 'crl.plain-http',
    mend: /redirection of the proxy/,
    proxy: ofLists('return 301 https://$host$request_uri;'),
  },
  {
    name: 'lists are named by https',
    id: 'crl.plain-http',
    mend: /crl\.http_port|ca\.crl_url/,
    config: ({ ports }) => ({ 'ca.crl_url': `https://localhost:${ports.https}/crl/{crl}` }),
  },
  { name: 'the list has ended', id: 'crl.fresh', mend: /crl rebuild/, proxy: withList({ daysAgo: 9 }) },
  { name: 'a cache holds an old list', id: 'crl.number', mend: /cache/, proxy: withList({}) },
  {
    name: 'the list is that of another CA',
    id: 'crl.signature',
    mend: /ca\.crl_url/,
    proxy: withList({ foreign: true }),
  },
  {
    name: 'lists are sent as text',
    id: 'crl.content-type',
    mend: /Content-Type/,
    proxy: (text) =>
      ofLists('proxy_pass http://chancery; proxy_hide_header Content-Type; add_header Content-Type text/plain;')(text),
  },
]

const NETWORK: Fault[] = [
  {
    name: 'a name server is gone',
    id: 'resolvers.answer',
    mend: /dns\.resolvers/,
    config: async ({ dns }) => ({ 'dns.resolvers': [dns.resolver, `127.0.0.1:${await freePort()}`] }),
  },
  {
    name: 'a name server refuses',
    id: 'resolvers.answer',
    mend: /let it resolve for this host/,
    dns: () => ({ rcode: 5 }),
  },
  {
    name: 'a name server does not validate',
    id: 'resolvers.dnssec',
    mend: /validating resolver/,
    dns: ({ name }) => ({ answers: [{ type: 'NS', name, data: 'a.gtld.test', ttl: 60 }] }),
  },
  {
    name: 'CAA look-ups fail',
    id: 'resolvers.caa',
    mend: /acme\.caa_unreachable_ok/,
    dns: ({ type, name }) => (type === 'CAA' ? { rcode: SERVFAIL } : { answers: [a(name, '127.0.0.1')] }),
  },
  {
    name: 'CAA records permit another CA only',
    id: 'resolvers.caa',
    mend: /acme\.caa_identities/,
    dns: ({ type, name }) => ({
      answers:
        type === 'CAA' ? [{ type: 'CAA', name, data: { tag: 'issue', value: 'other.test', flags: 0 }, ttl: 60 }] : [],
    }),
  },
  {
    name: 'validation does not know the name of the service',
    id: 'resolvers.own-name',
    mend: /server\.external_url/,
    config: { 'server.external_url': 'https://acme.elsewhere.test' },
  },
  {
    name: 'the network of clients is blocked',
    id: 'challenges.blocked',
    mend: /take its network out/,
    args: ['--target', 'client.corp.test'],
  },
  {
    name: 'this host can be asked by anybody’s name',
    id: 'challenges.blocked',
    mend: /127\.0\.0\.0\/8/,
    config: { 'challenges.http01': { blocked_networks: ['169.254.0.0/16'] } },
  },
  {
    name: 'the firewall keeps challenges in',
    id: 'challenges.http-port',
    mend: /firewall/,
    config: async () => ({ 'challenges.http01.port': await freePort() }),
    args: ['--target', 'client.corp.test'],
  },
]

const OTHERS: Fault[] = [
  {
    name: 'a perspective is gone',
    id: 'upstream.reachable',
    mend: /challenges\.perspectives\[0\]\.url/,
    config: async () => ({
      'challenges.perspectives': [
        { name: 'far', url: `https://localhost:${await freePort()}`, token: 'a token of a test' },
      ],
    }),
  },
  {
    name: 'a receiver of audit events has a certificate of an unknown CA',
    id: 'upstream.reachable',
    mend: /NODE_EXTRA_CA_CERTS/,
    config: ({ ports }) => ({ 'audit_export.webhook_url': `https://localhost:${ports.https}/hook` }),
  },
  {
    name: 'the disk of the archive is nearly full',
    id: 'disk.archive',
    mend: /larger disk/,
    async config(stand) {
      mkdirSync(at(stand, 'small'), { recursive: true })
      const disk = await startDisk(at(stand, 'small'), 1_000_000)
      stand.later(() => disk.stop())
      return { 'retention.archive_dir': disk.folder }
    },
  },
  {
    name: 'a credential ends unused',
    id: 'credentials.accounts',
    mend: /eab create/,
    sql: {
      plant: [
        `INSERT INTO eab_credentials (id, kid, hmac_key, expires_at) VALUES (gen_random_uuid(), 'fleet', 'x', now() + interval '2 days')`,
      ],
      undo: [`DELETE FROM eab_credentials WHERE kid = 'fleet'`],
    },
  },
  {
    name: 'an API token has expired',
    id: 'credentials.tokens',
    mend: /tokens create/,
    sql: {
      plant: [
        `INSERT INTO admin_api_tokens (id, name, role, token_hash, created_by, expires_at) SELECT gen_random_uuid(), 'ansible', 'admin', 'x', id, now() - interval '1 day' FROM admin_users LIMIT 1`,
      ],
      undo: [`DELETE FROM admin_api_tokens WHERE name = 'ansible'`],
    },
  },
  {
    name: 'no administrator is enabled',
    id: 'credentials.administrators',
    mend: /users create/,
    sql: { plant: ['UPDATE admin_users SET enabled = false'], undo: ['UPDATE admin_users SET enabled = true'] },
  },
  {
    name: 'a CA that the service trusts ends soon',
    id: 'credentials.certificates',
    mend: /planted-ca\.pem/,
    config: async (stand) => ({
      'smtp.tls': 'starttls',
      'smtp.ca_file': await stand.certificate('planted-ca', { days: 3 }),
    }),
  },
  {
    name: 'the mail server is gone',
    id: 'mail.server',
    mend: /smtp\.host/,
    config: async () => ({ 'smtp.port': await freePort() }),
  },
  {
    name: 'the mail server does not encrypt',
    id: 'mail.server',
    mend: /tls/,
    config: { 'smtp.tls': 'starttls' },
  },
]

export const FAULTS: readonly Fault[] = [
  ...FILES,
  ...CONFIGURATION,
  ...SERVICE,
  ...DATABASE,
  ...SIGNER,
  ...CLOCK,
  ...PROXY,
  ...TLS,
  ...CRL,
  ...NETWORK,
  ...OTHERS,
]
