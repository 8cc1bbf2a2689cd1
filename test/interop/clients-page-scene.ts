/**
 * What stands around the clients of docs/clients.md: folders of their own in place of the machine's, a zone corp.example that takes dynamic
 * updates, and a service at https://acme.corp.example. For a program that `runAlone` has started.
 */

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeAuthority } from '../signer/authority.ts'
import { type Daemon, startDaemon } from '../support/hosts/daemon.ts'
import type { DatabaseConnection } from '../support/postgres.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { ADDRESS } from './clients-page-stories.ts'

export const PREFIX = ADDRESS.replace(/\.\d+$/, '')

/** A home, logs and state, of this program's mount namespace only. */
const OWN_FOLDERS = [
  '/root',
  '/run',
  '/usr/local/sbin',
  '/usr/local/share/ca-certificates',
  '/var/lib',
  '/var/log',
  '/var/www',
]

export function mountOwnFolders(folder: string): void {
  const copy = path.join(folder, 'etc')
  execFileSync('cp', ['-a', '/etc', copy])
  execFileSync('mount', ['--bind', copy, '/etc'])
  for (const own of OWN_FOLDERS) {
    // What packages have made there is there, and empty.
    const made = readdirSync(own, { withFileTypes: true }).filter((one) => one.isDirectory())
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', own])
    for (const { name } of made) mkdirSync(path.join(own, name))
  }
  writeFileSync('/etc/resolv.conf', `nameserver ${PREFIX}.254\n`)
  writeFileSync('/etc/hosts', '127.0.0.1 localhost\n')
}

export function startKnot(folder: string): Daemon {
  const secret = randomBytes(32).toString('base64')
  writeFileSync('/etc/acme-tsig.key', `key "acme" { algorithm hmac-sha256; secret "${secret}"; };\n`, { mode: 0o600 })
  writeFileSync('/etc/acme-tsig.secret', secret, { mode: 0o600 })
  const zone = [
    '$TTL 60',
    '@ SOA ns hostmaster 1 3600 600 86400 1',
    '@ NS ns',
    ...['ns', 'acme'].map((name) => `${name} A ${PREFIX}.254`),
    `www A ${ADDRESS}`,
  ]
  writeFileSync(path.join(folder, 'corp.example.zone'), `${zone.join('\n')}\n`)
  const config = [
    'server:',
    `  rundir: "${folder}"`,
    `  listen: ${PREFIX}.254@53`,
    'database:',
    `  storage: "${folder}/knot"`,
    'log:',
    '  - target: stderr',
    '    any: info',
    'key:',
    '  - id: acme',
    '    algorithm: hmac-sha256',
    `    secret: ${secret}`,
    'acl:',
    '  - id: acme',
    '    key: acme',
    '    action: update',
    'zone:',
    '  - domain: corp.example',
    `    storage: "${folder}"`,
    '    file: corp.example.zone',
    '    zonefile-sync: -1',
    '    acl: acme',
  ]
  mkdirSync(path.join(folder, 'knot'))
  const file = path.join(folder, 'knot.conf')
  writeFileSync(file, `${config.join('\n')}\n`)
  return startDaemon('knotd', ['-c', file], { logFile: path.join(folder, 'knot.log') })
}

export function startService(folder: string, connection: DatabaseConnection): Promise<TestService> {
  const keyFile = path.join(folder, 'eab.key')
  writeFileSync(keyFile, randomBytes(32), { mode: 0o600 })
  const rootsFile = path.join(folder, 'former-roots.pem')
  writeFileSync(rootsFile, makeAuthority('P-256', { name: 'Former root' }).certificatePem)
  return startTestService({
    fronts: 1,
    // Made outside, where process numbers are everybody's; its socket is a file.
    database: { connection, drop: async () => undefined },
    config: {
      server: {
        external_url: 'https://acme.corp.example',
        bind: `${PREFIX}.254`,
        port: 443,
        tls: {
          cert_path: path.join(folder, 'own.pem'),
          key_path: path.join(folder, 'own.key'),
          self_issued_names: ['acme.corp.example'],
        },
      },
      // As setup makes it: every account is bound.
      acme: { eab_key_file: keyFile, eab_required: true },
      // With a root beside that of the issuer, as after a change of it.
      api: { roots_path: '/roots.pem', roots_file: rootsFile },
      crl: { enabled: true, http_port: 80 },
      challenges: {
        enabled: ['http-01', 'dns-01', 'tls-alpn-01', 'dns-persist-01'],
        http01: { port: 80 },
        dnspersist01: { issuer_domain_names: ['acme.corp.example'] },
      },
      dns: { resolvers: [`${PREFIX}.254`], zones: [] },
      security: { identifier_policy: { allow_ip: true } },
    },
  })
}

/** Debian's modules and a folder to write to; the rest is the page's file. */
export function writeApacheFrame(): void {
  const modules = ['mpm_event', 'authz_core', 'ssl', 'md'].map(
    (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
  )
  const frame = [
    'ServerName localhost',
    'DefaultRuntimeDir /run',
    'Mutex file:/run default',
    'PidFile /run/apache2.pid',
  ]
  const rest = [
    'ErrorLog /dev/stderr',
    'LogLevel md:info',
    'User www-data',
    'Group www-data',
    'Listen 80',
    'Listen 443',
  ]
  const lines = [
    ...modules,
    ...frame,
    ...rest,
    'MDStoreDir /var/lib/md',
    'MDRetryDelay 1s',
    'Include conf-available/acme.conf',
  ]
  mkdirSync('/etc/apache2', { recursive: true })
  writeFileSync('/etc/apache2/of-the-test.conf', `ServerRoot /etc/apache2\n${lines.join('\n')}\n`)
}
