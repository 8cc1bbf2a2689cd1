/** The service of a Debian package, set up in a root as docs/operations/deploy.md says. */

import { readFileSync } from 'node:fs'
import { stringify } from 'yaml'
import type { DevCaFiles } from '../../src/dev/dev-ca-certificates.ts'
import type { DebianHost } from './debian-root.ts'
import { until } from './until.ts'

export const SECRET = '5ec7e7'.repeat(11)

export interface ServicePlace {
  port: number
  http01Port: number
  externalUrl: string
}

/** Configures what is installed. The units of a root make no folders, so this does. */
export async function configureService(
  host: DebianHost,
  { port, http01Port, externalUrl }: ServicePlace,
): Promise<void> {
  const config = {
    server: { external_url: externalUrl, bind: '127.0.0.1', port },
    proxy: { enabled: true, trusted_proxies: ['127.0.0.1'] },
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the service takes it from service.env.
    database: { host: '/var/run/postgresql', database: 'chancery', user: '${DB_USER}' },
    ca: { signer: { socket: '/run/chancery-signer/signer.sock', secret_file: '/etc/chancery/signer.secret' } },
    nonce: { store: 'database' },
    challenges: { http01: { port: http01Port, blocked_networks: [] } },
    dns: { zones: [{ zone: 'test', addresses: ['127.0.0.1'] }] },
    security: { rate_limits: { enabled: false } },
    notifications: { enabled: false },
  }
  await host.write('/etc/chancery/config.yaml', stringify(config))
  // Quotes as systemd takes them.
  await host.write('/etc/chancery/service.env', '# Who connects\nDB_USER="chancery"\n')
  await host.write('/etc/chancery/signer.secret', SECRET)
  await host.run('systemd-tmpfiles --create /usr/share/doc/chancery/examples/rights.conf')
  await host.run('install -d -m 700 -o chancery -g chancery /var/lib/chancery')
}

export async function configureSigner(host: DebianHost, ca: DevCaFiles): Promise<void> {
  const config = {
    socket: '/run/chancery-signer/signer.sock',
    secret_file: 'signer.secret',
    audit: { file: '/var/lib/chancery-signer/audit.jsonl' },
    issuers: [{ id: 'default', certificate: 'issuer.pem', chain: 'root.pem', key: { file: 'issuer.key' } }],
  }
  const files = { 'issuer.pem': ca.intermediate, 'issuer.key': ca.intermediateKey, 'root.pem': ca.root }
  for (const [name, file] of Object.entries(files))
    await host.write(`/etc/chancery/${name}`, readFileSync(file, 'utf8'))
  await host.write('/etc/chancery/signer.yaml', stringify(config))
  await host.write('/etc/chancery/signer.secret', SECRET)
  await host.run('systemd-tmpfiles --create /usr/share/doc/chancery-signer/examples/rights.conf')
  await host.run('install -d -m 700 -o chancery-signer -g chancery-signer /var/lib/chancery-signer')
  await host.run('install -d -m 750 -o chancery-signer -g chancery-signer /run/chancery-signer')
}

/** The cluster that Debian's package has made, on its Unix socket only: hosts share the ports of this machine. */
export async function startPostgres(host: DebianHost): Promise<void> {
  await host.run('install -d -m 2775 -o postgres -g postgres /run/postgresql')
  // Its package takes another port where something on this machine has 5432, though a socket would not meet it.
  await host.run(`printf "listen_addresses = ''\\nport = 5432\\n" | tee -a /etc/postgresql/*/main/postgresql.conf`)
  await host.run('pg_ctlcluster --skip-systemctl-redirect "$(ls /etc/postgresql)" main start')
}

/** Starts PostgreSQL with the role and the database of the service. */
export async function startDatabase(host: DebianHost): Promise<void> {
  await startPostgres(host)
  await host.run('cd / && runuser -u postgres -- createuser chancery')
  await host.run(
    'cd / && runuser -u postgres -- createdb --template=template0 --encoding=UTF8 --locale=C.UTF-8 --owner chancery chancery',
  )
}

export const AS_SERVICE = 'cd / && DB_USER=chancery runuser -u chancery --'

export async function startUnit(host: DebianHost, unit: string): Promise<void> {
  await host.run(`systemctl start ${unit}`)
}

/** @throws Error with the end of the service's log */
export async function untilReady(host: DebianHost, { port }: Pick<ServicePlace, 'port'>): Promise<void> {
  const isReady = () =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    )
  await until('the service of a package is ready', isReady).catch(async (error: Error) => {
    const { output } = await host.tryRun('tail -n 20 /var/log/journal/chancery.service.log')
    throw new Error(`${error.message}\n${output}`)
  })
}

/** The folder from which a program runs now. */
export async function runningRelease(host: DebianHost, unit: string): Promise<string | undefined> {
  const { output } = await host.tryRun(
    `tr '\\0' ' ' <"/proc/$(systemctl show -p MainPID ${unit} | cut -d= -f2)/cmdline"`,
  )
  return /\/releases\/([^/]+)\//.exec(output)?.[1]
}
