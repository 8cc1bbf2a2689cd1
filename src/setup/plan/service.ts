/** The steps for the service: role and database in a PostgreSQL of this host, its secrets, and its configuration. */

import { PATHS, PLACES } from '../../installation/places.ts'
import { hostOf } from '../../shared/lib/host.ts'
import { type DeployFiles, type Facts, isThere } from '../facts.ts'
import type { Answers } from '../questions.ts'
import { serviceConfig, serviceEnv } from './service-config.ts'
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
