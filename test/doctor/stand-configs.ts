/** The configurations of a stand: those of an installation in which `chancery doctor` finds nothing wrong. */

import type { ScriptedDns } from '../workers/scripted-dns.ts'
import type { Ports, Stand } from './stand.ts'

type Section = Record<string, unknown>

export function signerConfig(files: Stand['files'], at: (name: string) => string, ports: Ports): Section {
  return {
    socket: files.socket,
    secret_file: files.secret,
    audit: { file: files.audit },
    log: { level: 'silent' },
    issuers: [
      {
        id: 'default',
        certificate: at('issuer.pem'),
        chain: at('root.pem'),
        key: { file: files.key },
        policy: {
          permitted: { dns: ['corp.test', 'test-sign.invalid', 'localhost'] },
          crl_urls: [`http://localhost:${ports.http}/`, `http://localhost:${ports.lists}/`],
        },
      },
    ],
  }
}

interface Parts {
  files: Stand['files']
  at: (name: string) => string
  ports: Ports
  postgresPort: number
  dns: ScriptedDns
  mailPort: number
}

export function serviceConfig({ files, at, ports, postgresPort, dns, mailPort }: Parts): Section {
  return {
    server: {
      external_url: `https://localhost:${ports.https}`,
      bind: '127.0.0.1',
      port: ports.service,
      workers: 1,
      graceful_timeout: 5,
    },
    proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
    database: { host: '127.0.0.1', port: postgresPort, database: 'chancery', user: 'chancery', sslmode: 'disable' },
    ca: {
      signer: { socket: files.socket, secret_file: files.secret },
      crl_url: `http://localhost:${ports.http}/crl/{crl}`,
    },
    crl: { enabled: true },
    ari: { enabled: true },
    metrics: { enabled: true },
    acme: { caa_identities: ['ca.corp.test'] },
    challenges: { enabled: ['http-01', 'dns-01'], dns01: { require_dnssec: true } },
    dns: { resolvers: [dns.resolver] },
    security: { identifier_policy: { allowed_domains: ['*.corp.test'] } },
    smtp: { enabled: true, host: '127.0.0.1', port: mailPort, tls: 'none', from_address: 'ca@corp.test' },
    admin_api: {
      enabled: true,
      initial_admin_email: 'ops@corp.test',
      token_secret: 'a secret of a test that has more than thirty-two bytes',
    },
    retention: { certificates_days_after_expiry: 400, archive_dir: at('state/archive') },
    logging: { level: 'ERROR' },
  }
}
