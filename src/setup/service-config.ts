/** The text of the service's configuration, with a sentence for each key that an operator may want to change. */

import { hostOf } from '../shared/lib/host.ts'
import type { Answers } from './answers.ts'
import { PLACES } from './facts.ts'

/** Challenges that work without more configuration. */
export const METHODS = ['http-01', 'dns-01', 'tls-alpn-01']

/** JSON is YAML, and quotes what needs it. */
export const yaml = (value: unknown) => JSON.stringify(value)
export const list = (values: readonly unknown[]) => `[${values.map(yaml).join(', ')}]`

/**
 * @param tokenSecret signs tokens of administrators; the file is closed to others because of it
 * @param hasAuditKey false where the key of the audit log is made of `tokenSecret`
 */
export function serviceConfig(answers: Answers, tokenSecret: string, hasAuditKey: boolean): string {
  const parts = [
    '# Configuration of the service; every key: docs/configuration.md.',
    '# Check a change with: chancery -c /etc/chancery/config.yaml --validate-only',
    '# Apply it with: systemctl reload chancery (keys marked live), or restart.',
    server(answers),
    'api:',
    '  # Where clients may fetch the root; its SHA-256 says whether it is the right one.',
    '  roots_path: /roots.pem',
    database(answers),
    ca(answers),
    security(answers),
    acme(answers),
    'challenges:',
    '  # How clients may prove a name. A wildcard takes dns-01.',
    `  enabled: ${list(METHODS)}`,
    'ari:\n  enabled: true',
    answers.mail_host === '' ? 'smtp:\n  # Nobody gets mail.\n  enabled: false' : mail(answers),
    ...(answers.console ? [console_(answers, tokenSecret, hasAuditKey)] : []),
  ]
  return `${parts.join('\n')}\n`
}

function server({ url, tls, port, tls_certificate, tls_key }: Answers): string {
  const files =
    tls === 'own'
      ? { cert: `${PLACES.tlsFolder}/cert.pem`, key: `${PLACES.tlsFolder}/key.pem` }
      : { cert: tls_certificate, key: tls_key }
  const withTls = [
    '  tls:',
    `    cert_path: ${yaml(files.cert)}`,
    `    key_path: ${yaml(files.key)}`,
    ...(tls === 'own'
      ? ['    # The service makes and renews this certificate itself.', `    self_issued_names: ${list([hostOf(url)])}`]
      : []),
  ]
  const behindProxy = [
    'proxy:',
    '  enabled: true',
    '  # Whose X-Forwarded-For is believed.',
    '  trusted_proxies: [127.0.0.1]',
  ]
  return [
    'server:',
    '  # Part of every URL that clients keep: do not change it.',
    `  external_url: ${yaml(url)}`,
    ...(tls === 'proxy' ? ['  bind: 127.0.0.1'] : ['  # "::" listens on IPv6, too.', '  bind: 0.0.0.0']),
    `  port: ${port}`,
    ...(tls === 'proxy' ? behindProxy : withTls),
  ].join('\n')
}

function database(answers: Answers): string {
  const { database: where, database_hosts: hosts, database_port, database_name, database_user, database_ca } = answers
  const place =
    where === 'remote'
      ? [
          `  host: ${hosts.length === 1 ? yaml(hosts[0]) : list(hosts)}`,
          `  port: ${database_port}`,
          '  # Certificate and name of the server are checked.',
          '  sslmode: verify-full',
          ...(database_ca === '' ? [] : [`  sslrootcert: ${yaml(database_ca)}`]),
          `  # From ${PLACES.serviceEnv}; commands need the variable, too.`,
          `  password: "\${DB_PASSWORD}"`,
        ]
      : [
          '  # The socket: no password, because the role has the name of the user.',
          '  host: /var/run/postgresql',
          `  port: ${database_port}`,
        ]
  const names = [`  database: ${yaml(database_name)}`, `  user: ${yaml(database_user)}`]
  const decisions = ['  # What is decided while the signer is away.', `  decisions_file: ${PLACES.decisions}`]
  return ['database:', ...place, ...names, ...decisions].join('\n')
}

function ca({ crl_url, tls }: Answers): string {
  const crl =
    crl_url === 'none'
      ? []
      : [
          '  # Part of every certificate.',
          `  crl_url: ${yaml(`${crl_url}/crl/{crl}`)}`,
          'crl:',
          '  enabled: true',
          // Behind a proxy, the proxy serves the lists from the port of the service.
          ...(tls === 'proxy'
            ? []
            : ['  # Serves only the lists, without TLS.', `  http_port: ${Number(new URL(crl_url).port || 80)}`]),
        ]
  return ['ca:', '  signer:', `    socket: ${PLACES.socket}`, `    secret_file: ${PLACES.secret}`, ...crl].join('\n')
}

function security({ domains, networks }: Answers): string {
  return [
    'security:',
    '  # Keys of accounts; HAProxy makes a P-384 key.',
    '  allowed_algorithms: [ES256, RS256, ES384, ES512, EdDSA]',
    '  allowed_ec_curves: [P-256, P-384, P-521]',
    '  identifier_policy:',
    '    # *.x is x and everything below. The signer has a list of its own (signer.yaml): change both.',
    `    allowed_domains: ${list(domains.map((domain) => `*.${domain}`))}`,
    ...(networks.length > 0 ? [`    # Which addresses: the list of the signer.`, '    allow_ip: true'] : []),
  ].join('\n')
}

function acme({ accounts, caa_identity }: Answers): string {
  return [
    'acme:',
    '  # true: an account needs a credential (chancery eab create).',
    `  eab_required: ${accounts === 'eab'}`,
    '  # Encrypts the keys of credentials in the database: keep it with the backups.',
    `  eab_key_file: ${PLACES.eabKey}`,
    ...(caa_identity === ''
      ? [
          '  # CAA records of DNS are not looked at. To have them count: true, and caa_identities',
          '  # (docs/operations/validation.md).',
          '  caa_enforce: false',
        ]
      : ['  # Where a name has CAA records, they have to name this.', `  caa_identities: ${list([caa_identity])}`]),
  ].join('\n')
}

function mail({ mail_host, mail_port, mail_from, mail_user }: Answers): string {
  const login = mail_user === '' ? [] : [`  username: ${yaml(mail_user)}`, `  password: "\${SMTP_PASSWORD}"`]
  return [
    'smtp:',
    '  enabled: true',
    `  host: ${yaml(mail_host)}`,
    `  port: ${mail_port}`,
    ...login,
    `  from_address: ${yaml(mail_from)}`,
  ].join('\n')
}

function console_({ admin_email, admin_port }: Answers, tokenSecret: string, hasAuditKey: boolean): string {
  return [
    'admin_api:',
    '  enabled: true',
    '  # Signs the tokens of administrators: a secret, which is why this file is closed to others.',
    `  token_secret: ${yaml(tokenSecret)}`,
    ...(hasAuditKey
      ? [
          '  # The key of the audit log, which no other key proves: keep it with the backups.',
          `  audit_key_file: ${PLACES.auditKey}`,
        ]
      : []),
    `  initial_admin_email: ${yaml(admin_email)}`,
    '  listen:',
    '    bind: 127.0.0.1',
    `    port: ${admin_port}`,
  ].join('\n')
}

/** Variables of the configuration. @returns undefined where it names none */
export function serviceEnv({ database, database_password, mail_user, mail_password }: Answers): string | undefined {
  const lines = [
    ...(database === 'remote' ? [`DB_PASSWORD=${quoted(database_password)}`] : []),
    ...(mail_user === '' ? [] : [`SMTP_PASSWORD=${quoted(mail_password)}`]),
  ]
  return lines.length === 0 ? undefined : `${lines.join('\n')}\n`
}

/** As systemd reads an environment file. In single quotes every character is itself, which all that read such a file know. */
const quoted = (value: string) => (value.includes("'") ? `"${value.replaceAll(/["\\$`]/g, '\\$&')}"` : `'${value}'`)
