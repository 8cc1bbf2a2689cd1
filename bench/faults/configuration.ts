/** The files that the programs of the stand read: as an operator would write them, with short waits. */

import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'

export interface Places {
  /** Ports of the balancer, which clients use. */
  balancer: { https: number; lists: number }
  instance: { port: number; certificate: string; key: string }
  database: { hosts: readonly string[]; port: number; certificate: string }
  /** This instance's way to the signer. */
  signerSocket: string
  secretFile: string
  auditLog: string
  decisionsFile: string
  resolver: number
  http01: number
  mail: number
  webhook: number
}

export const ADMINISTRATOR = 'admin@faults.test'
export const CONSOLE = 'https://console.faults.test/api/console/'
export const EVENTS = ['certificate.issuance', 'certificate.revocation']

export function instanceConfiguration(places: Places): object {
  const { balancer, instance, database } = places
  return {
    server: {
      external_url: `https://127.0.0.1:${balancer.https}`,
      bind: '127.0.0.1',
      port: instance.port,
      workers: 1,
      graceful_timeout: 10,
      tls: { cert_path: instance.certificate, key_path: instance.key },
    },
    proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
    database: {
      host: database.hosts,
      port: database.port,
      database: 'chancery',
      user: 'chancery',
      sslmode: 'verify-ca',
      sslrootcert: database.certificate,
      max_connections: 20,
      auto_setup: true,
      decisions_file: places.decisionsFile,
    },
    ca: { signer: { socket: places.signerSocket, secret_file: places.secretFile, timeout_seconds: 5 } },
    challenges: {
      http01: { port: places.http01, blocked_networks: [], timeout_seconds: 5 },
      backoff_base_seconds: 1,
      retry_after_seconds: 1,
      background_worker: { enabled: true, poll_seconds: 5, stale_seconds: 15 },
    },
    dns: { resolvers: [`127.0.0.1:${places.resolver}`], timeout_seconds: 5 },
    // All clients have one address here.
    security: { rate_limits: { enabled: false } },
    nonce: { store: 'database', audit_consumed: true },
    ari: { enabled: true },
    crl: { enabled: true, rebuild_interval_seconds: 60, next_update_seconds: 86_400 },
    metrics: { enabled: true },
    admin_api: {
      enabled: true,
      token_secret: '0123456789abcdef0123456789abcdef',
      initial_admin_email: ADMINISTRATOR,
      console_url: CONSOLE,
      // Each waits for a second administrator, who may approve, reject, or let it be withdrawn.
      approvals: { bulk_revocation_above: 0 },
    },
    smtp: { enabled: true, host: '127.0.0.1', port: places.mail, use_tls: false, from_address: 'acme@faults.test' },
    notifications: {
      enabled: true,
      max_retries: 1_000,
      retry_delay_seconds: 1,
      retry_max_delay_seconds: 2,
      retry_interval_seconds: 1,
      max_per_recipient_per_hour: 10_000_000,
    },
    hooks: {
      registered: [
        {
          class: 'webhook',
          events: EVENTS,
          config: { url: `http://127.0.0.1:${places.webhook}/`, allow_private: true, max_retries: 50 },
        },
      ],
    },
    logging: { audit: { enabled: true, file: places.auditLog } },
  }
}

export interface SignerPlaces {
  socket: string
  secretFile: string
  auditFile: string
  ca: DevCaFiles
  key: object
}

export function signerConfiguration({ socket, secretFile, auditFile, ca, key }: SignerPlaces): object {
  return {
    socket,
    secret_file: secretFile,
    audit: { file: auditFile },
    issuers: [{ id: 'default', certificate: ca.intermediate, chain: ca.root, key }],
  }
}

export interface BalancerPlaces {
  https: number
  lists: number
  /** Certificate and key of its own. */
  pem: string
  instances: readonly { port: number; certificate: string }[]
}

/**
 * `deploy/proxy/haproxy.cfg` with ports and files of the stand, and TLS to the instances.
 * @throws Error when the example no longer has what is replaced
 */
export function balancerConfiguration(example: string, { https, lists, pem, instances }: BalancerPlaces): string {
  const server = ({ port, certificate }: BalancerPlaces['instances'][number]) =>
    `127.0.0.1:${port} ssl verify required ca-file ${certificate} check`
  const [one, two] = instances
  const replacements = {
    '127.0.0.1:8443 check': server(one!),
    '#server two 127.0.0.1:8446 check': `server two ${server(two!)}`,
    'bind :80': `bind 127.0.0.1:${lists}`,
    'bind :443': `bind 127.0.0.1:${https}`,
    '/etc/haproxy/chancery.pem': pem,
  }
  const text = Object.entries(replacements).reduce((done, [from, to]) => {
    if (!done.includes(from)) throw new Error(`the example for HAProxy lacks "${from}"`)
    return done.replaceAll(from, to)
  }, example)
  return `global\n    maxconn 2000\n${text}`
}
