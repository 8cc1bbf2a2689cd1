/**
 * The steps for the service: role and database in a PostgreSQL of this host, its secrets, and its configuration, with a
 * sentence for each key that an operator may want to change.
 */

import { PATHS, PLACES } from '../../installation/places.ts'
import { hostOf } from '../../shared/lib/host.ts'
import { type DeployFiles, type Facts, isThere } from '../facts.ts'
import type { Answers } from '../questions.ts'
import { configText, noted, quoted, type Section, variable } from './config-text.ts'
import { type Command, type RunWork, type Step, serviceCommand, stepsOf } from './step.ts'

const CLUSTER = 'chancery'
/** A cluster that was made without a locale gives SQL_ASCII, which the service refuses. */
const PLAIN_TEXT = ['--template=template0', '--encoding=UTF8', '--locale=C.UTF-8']

export function databaseSteps(answers: Answers, { postgres }: Facts): Step[] {
  const { database, database_port } = answers
  if (database === 'remote') return []
  const port = ['--port', String(database_port)]
  const asPostgres = (...words: string[]): Command => ({ words, as: 'postgres' })
  const asks = (sql: string) => asPostgres('psql', ...port, '--no-psqlrc', '-tAc', sql, 'postgres')
  const cluster: Step[] = [
    {
      title: `A cluster of PostgreSQL ${postgres} of its own, at port ${database_port} (for trials)`,
      work: {
        kind: 'run',
        command: { words: ['pg_createcluster', String(postgres), CLUSTER, ...port], as: 'root' },
        unless: `/etc/postgresql/${postgres}/${CLUSTER}/postgresql.conf`,
      },
    },
    {
      title: 'Start that cluster',
      work: {
        kind: 'run',
        command: { words: ['pg_ctlcluster', String(postgres), CLUSTER, 'start'], as: 'root' },
        unless: asPostgres('pg_isready', ...port),
      },
    },
  ]
  return [
    ...(database === 'trial' ? cluster : []),
    {
      title: 'Role chancery in PostgreSQL',
      work: {
        kind: 'run',
        command: asPostgres('createuser', ...port, 'chancery'),
        unless: asks("SELECT 1 FROM pg_roles WHERE rolname = 'chancery'"),
      },
    },
    {
      title: 'Database chancery, which belongs to it',
      work: {
        kind: 'run',
        command: asPostgres('createdb', ...port, ...PLAIN_TEXT, '--owner', 'chancery', 'chancery'),
        unless: asks("SELECT 1 FROM pg_database WHERE datname = 'chancery'"),
      },
    },
  ]
}

interface ServiceOptions {
  /** Signs tokens of administrators, unless the configuration that is there has such a secret. */
  freshToken: string
  acceptsAuditLog: boolean
}

export function serviceSteps(answers: Answers, facts: Facts, { freshToken, acceptsAuditLog }: ServiceOptions): Step[] {
  const env = serviceEnv(answers)
  const example = answers.tls === 'proxy' ? proxyExample(answers, facts.deploy) : undefined
  const config = (...words: string[]): RunWork => ({ kind: 'run', command: serviceCommand(facts, ...words) })
  const former = facts.files[PATHS.config]
  const tokenSecret = tokenSecretIn(former)
  // A log that was begun under the key made of that secret continues under it.
  const hasAuditKey = answers.console && (tokenSecret === undefined || former?.includes(PATHS.auditKey) === true)
  return stepsOf(
    {
      title: 'A secret that encrypts the keys of credentials',
      work: { kind: 'random', at: PLACES.eabKey },
    },
    hasAuditKey && {
      title: "A secret that is the key of the audit log's chain",
      work: { kind: 'random', at: PLACES.auditKey },
    },
    // Its secrets are asked for once only, so a file that is there is right.
    env !== undefined &&
      !isThere(facts, PATHS.serviceEnv) && {
        title: 'Passwords of the service, which only root can read',
        work: { kind: 'file', at: PLACES.serviceEnv, text: env, isSecret: true },
      },
    {
      title: "The service's configuration",
      work: { kind: 'file', at: PLACES.config, text: serviceConfig(answers, tokenSecret ?? freshToken, hasAuditKey) },
    },
    example !== undefined && {
      title: `An example for ${answers.proxy}, to be put where the proxy reads it`,
      work: { kind: 'file', at: PLACES.proxyExample, text: example },
    },
    { title: "Check the service's configuration", work: config('--validate-only') },
    { title: 'Reach the database', work: config('db', 'migrate', '--plan') },
    { title: 'Bring the database to the schema of this release', work: config('db', 'migrate') },
    answers.console &&
      !acceptsAuditLog && {
        title: 'See that the audit log is whole',
        work: { ...config('audit', 'verify'), wayOut: LOST_KEY },
      },
    answers.console && {
      title: 'The first administrator',
      work: { kind: 'administrator', email: answers.admin_email },
    },
    answers.accounts === 'eab' && {
      title: 'A first credential for accounts',
      work: { kind: 'credential', kid: 'first', allow: allowed(answers) },
    },
  )
}

/** The log is verified before the first entry of the run, because no key would prove entries under two keys. */
const LOST_KEY = `Where ${PATHS.config} or ${PATHS.auditKey} was lost, put back the one of the backup. If there is none, --accept-audit-log goes on: what is in the log stays unproved.`

const allowed = ({ domains, networks }: Answers) => [...domains.map((domain) => `*.${domain}`), ...networks]

/** The secret is kept over repeated runs: with another one, everybody would be signed out. */
const tokenSecretIn = (config: string | undefined): string | undefined =>
  /^ {2}token_secret: "([^"]+)"$/m.exec(config ?? '')?.[1]

/** The examples of `deploy/proxy` get the names of this installation. */
const EXAMPLES = { nginx: 'proxy/nginx.conf', haproxy: 'proxy/haproxy.cfg' } as const

/** The places of certificate and key in the examples. Both proxies read both from one file. */
const CERTIFICATES = /\/etc\/(?:nginx|haproxy)\/chancery\.(?:pem|key)/g

/** @returns undefined for a proxy that there is no example for */
function proxyExample(answers: Answers, deploy: DeployFiles): string | undefined {
  const { proxy, port, crl_url, proxy_certificate } = answers
  if (proxy === 'other') return undefined
  const host = hostOf(answers.url)
  const crlHost = crl_url === 'none' ? host : new URL(crl_url).hostname
  return deploy[EXAMPLES[proxy]]
    ?.replaceAll('127.0.0.1:8443', `127.0.0.1:${port}`)
    .replaceAll('acme.corp.example crl.corp.example', host === crlHost ? host : `${host} ${crlHost}`)
    .replaceAll('acme.corp.example', host)
    .replaceAll('crl.corp.example', crlHost)
    .replaceAll(CERTIFICATES, proxy_certificate ? PATHS.proxyCertificate : '$&')
}

/** Challenges that work without more configuration. */
export const METHODS = ['http-01', 'dns-01', 'tls-alpn-01']

const ABOUT = [
  'Configuration of the service; every key: docs/configuration.md.',
  `Check a change with: chancery -c ${PATHS.config} --validate-only`,
  'Apply it with: systemctl reload chancery (keys marked live), or restart.',
]

/**
 * @param tokenSecret signs tokens of administrators; the file is closed to others because of it
 * @param hasAuditKey false where the key of the audit log is made of `tokenSecret`
 */
const serviceConfig = (answers: Answers, tokenSecret: string, hasAuditKey: boolean): string =>
  configText({
    server: noted(ABOUT, server(answers)),
    proxy:
      answers.tls === 'proxy'
        ? { enabled: true, trusted_proxies: noted('Whose X-Forwarded-For is believed.', ['127.0.0.1']) }
        : undefined,
    api: {
      roots_path: noted(
        'Where clients may fetch the root; its SHA-256 says whether it is the right one.',
        '/roots.pem',
      ),
    },
    database: database(answers),
    ca: {
      signer: { socket: PATHS.socket, secret_file: PATHS.secret },
      crl_url:
        answers.crl_url === 'none'
          ? undefined
          : noted('Part of every certificate.', quoted(`${answers.crl_url}/crl/{crl}`)),
    },
    crl: crl(answers),
    security: security(answers),
    acme: acme(answers),
    challenges: {
      enabled: noted('How clients may prove a name. A wildcard takes dns-01.', METHODS.map(quoted)),
    },
    ari: { enabled: true },
    smtp: mail(answers),
    admin_api: answers.console ? adminApi(answers, tokenSecret, hasAuditKey) : undefined,
  })

function server({ url, tls, port, tls_certificate, tls_key }: Answers): Section {
  const own = {
    cert_path: quoted(`${PATHS.tlsFolder}/cert.pem`),
    key_path: quoted(`${PATHS.tlsFolder}/key.pem`),
    self_issued_names: noted('The service makes and renews this certificate itself.', [quoted(hostOf(url))]),
  }
  const files = { cert_path: quoted(tls_certificate), key_path: quoted(tls_key) }
  return {
    external_url: noted('Part of every URL that clients keep: do not change it.', quoted(url)),
    bind: tls === 'proxy' ? '127.0.0.1' : noted('"::" listens on IPv6, too.', '0.0.0.0'),
    port,
    tls: { proxy: undefined, own, files }[tls],
  }
}

function database(answers: Answers): Section {
  const { database_hosts: hosts, database_port: port, database_name, database_user, database_ca } = answers
  const place: Section =
    answers.database === 'remote'
      ? {
          host: hosts.length === 1 ? quoted(hosts[0]!) : hosts.map(quoted),
          port,
          sslmode: noted('Certificate and name of the server are checked.', 'verify-full'),
          sslrootcert: database_ca === '' ? undefined : quoted(database_ca),
          password: noted(`From ${PATHS.serviceEnv}; commands need the variable, too.`, variable('DB_PASSWORD')),
        }
      : {
          host: noted('The socket: no password, because the role has the name of the user.', '/var/run/postgresql'),
          port,
        }
  return {
    ...place,
    database: quoted(database_name),
    user: quoted(database_user),
    decisions_file: noted('What is decided while the signer is away.', PATHS.decisions),
  }
}

/** Behind a proxy, the proxy serves the lists from the port of the service. */
function crl({ crl_url, tls }: Answers): Section | undefined {
  if (crl_url === 'none') return undefined
  const port = Number(new URL(crl_url).port || 80)
  return {
    enabled: true,
    http_port: tls === 'proxy' ? undefined : noted('Serves only the lists, without TLS.', port),
  }
}

const security = ({ domains, networks }: Answers): Section => ({
  allowed_algorithms: noted('Keys of accounts; HAProxy makes a P-384 key.', [
    'ES256',
    'RS256',
    'ES384',
    'ES512',
    'EdDSA',
  ]),
  allowed_ec_curves: ['P-256', 'P-384', 'P-521'],
  identifier_policy: {
    allowed_domains: noted(
      '*.x is x and everything below. The signer has a list of its own (signer.yaml): change both.',
      domains.map((domain) => quoted(`*.${domain}`)),
    ),
    allow_ip: networks.length > 0 ? noted('Which addresses: the list of the signer.', true) : undefined,
  },
})

const WITHOUT_CAA = [
  'CAA records of DNS are not looked at. To have them count: true, and caa_identities',
  '(docs/operations/validation.md).',
]

const acme = ({ accounts, caa_identity }: Answers): Section => ({
  eab_required: noted('true: an account needs a credential (chancery eab create).', accounts === 'eab'),
  eab_key_file: noted('Encrypts the keys of credentials in the database: keep it with the backups.', PATHS.eabKey),
  caa_enforce: caa_identity === '' ? noted(WITHOUT_CAA, false) : undefined,
  caa_identities:
    caa_identity === ''
      ? undefined
      : noted('Where a name has CAA records, they have to name this.', [quoted(caa_identity)]),
})

function mail({ mail_host, mail_port, mail_from, mail_user }: Answers): Section {
  if (mail_host === '') return { enabled: noted('Nobody gets mail.', false) }
  const login = mail_user === '' ? {} : { username: quoted(mail_user), password: variable('SMTP_PASSWORD') }
  return { enabled: true, host: quoted(mail_host), port: mail_port, ...login, from_address: quoted(mail_from) }
}

const adminApi = ({ admin_email, admin_port }: Answers, tokenSecret: string, hasAuditKey: boolean): Section => ({
  enabled: true,
  token_secret: noted(
    'Signs the tokens of administrators: a secret, which is why this file is closed to others.',
    quoted(tokenSecret),
  ),
  audit_key_file: hasAuditKey
    ? noted('The key of the audit log, which no other key proves: keep it with the backups.', PATHS.auditKey)
    : undefined,
  initial_admin_email: quoted(admin_email),
  listen: { bind: '127.0.0.1', port: admin_port },
})

/** Variables of the configuration. @returns undefined where it names none */
function serviceEnv({ database, database_password, mail_user, mail_password }: Answers): string | undefined {
  const lines = [
    ...(database === 'remote' ? [`DB_PASSWORD=${quotedForSystemd(database_password)}`] : []),
    ...(mail_user === '' ? [] : [`SMTP_PASSWORD=${quotedForSystemd(mail_password)}`]),
  ]
  return lines.length === 0 ? undefined : `${lines.join('\n')}\n`
}

/** A value of an environment file of systemd. In single quotes every character is itself for each program that reads it. */
const quotedForSystemd = (value: string) =>
  value.includes("'") ? `"${value.replaceAll(/["\\$`]/g, '\\$&')}"` : `'${value}'`
