/** Apache with mod_md as an ACME client, with a configuration of its own and none of Debian's. */

import { chmodSync, copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Daemon, startDaemon } from './daemon.ts'

export interface ApacheOptions {
  /** One certificate for all of them. */
  names: readonly string[]
  directoryUrl: string
  rootFile: string
  http01Port: number
  httpsPort: number
  binding?: { kid: string; hmacKey: string }
  /** Challenges are met by dns-01 and these records in place of http-01. */
  dns01?: { hookFile: string; env: { RECORDS: string } }
}

export interface Apache {
  daemon: Daemon
  /** Reads the configuration again without dropping connections, as `apachectl graceful` does; new certificates are put to use. */
  reload(): void
  /** From the next reload on: how long before their end certificates are renewed, as mod_md spells it. */
  setRenewWindow(window: string): void
  /** The file with the chain in use, or with the one that waits for the next reload, once it is there. */
  chain(group: 'domains' | 'staging'): string | undefined
  dispose(): Promise<void>
}

const MODULES = '/usr/lib/apache2/modules'
/** mod_md itself takes the last third of a certificate's life. */
const DEFAULT_RENEW_WINDOW = '33%'

export function startApache(options: ApacheOptions): Apache {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-apache-'))
  // Apache's children give up root; they must get through to what they read and store.
  chmodSync(folder, 0o755)
  copyFileSync(options.rootFile, path.join(folder, 'root.pem'))
  const config = path.join(folder, 'apache.conf')
  const setRenewWindow = (window: string) => writeFileSync(config, configuration(folder, options, window))
  setRenewWindow(DEFAULT_RENEW_WINDOW)
  const daemon = startDaemon('apache2', ['-d', folder, '-f', config, '-DFOREGROUND'], {
    logFile: path.join(folder, 'log'),
    ...(options.dns01 && { env: options.dns01.env }),
  })
  return {
    daemon,
    reload: () => void daemon.process.kill('SIGUSR1'),
    setRenewWindow,
    chain(group) {
      const certificates = path.join(folder, 'md', group, options.names[0] ?? '')
      if (!existsSync(certificates)) return undefined
      const found = readdirSync(certificates).find((name) => /^pubcert.*\.pem$/.test(name))
      return found && path.join(certificates, found)
    },
    async dispose() {
      await daemon.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function configuration(folder: string, options: ApacheOptions, renewWindow: string): string {
  const { names, directoryUrl, http01Port, httpsPort, binding, dns01 } = options
  const lines = [
    ...['mpm_event', 'authz_core', 'ssl', 'md'].map((name) => `LoadModule ${name}_module ${MODULES}/mod_${name}.so`),
    `DefaultRuntimeDir "${folder}"`,
    `Mutex "file:${folder}" default`,
    `PidFile "${folder}/pid"`,
    'ErrorLog /dev/stderr',
    'LogLevel md:info',
    'User www-data',
    'Group www-data',
    'ServerName localhost',
    `Listen 127.0.0.1:${http01Port}`,
    `Listen 127.0.0.1:${httpsPort} https`,
    `MDPortMap http:${http01Port} https:${httpsPort}`,
    `MDStoreDir "${folder}/md"`,
    `MDCertificateAuthority ${directoryUrl}`,
    `MDCACertificateFile "${folder}/root.pem"`,
    ...(binding ? [`MDExternalAccountBinding ${binding.kid} ${binding.hmacKey}`] : []),
    'MDRetryDelay 1s',
    'MDCertificateAgreement accepted',
    ...(dns01 ? ['MDCAChallenges dns-01', `MDChallengeDns01 ${dns01.hookFile}`] : ['MDCAChallenges http-01']),
    'MDPrivateKeys P-256',
    'MDStapling off',
    'MDContactEmail admin@apache.test',
    `MDRenewWindow ${renewWindow}`,
    `MDomain ${names.join(' ')}`,
    `<VirtualHost 127.0.0.1:${httpsPort}>`,
    `  ServerName ${names[0]}`,
    ...names.slice(1).map((name) => `  ServerAlias ${name}`),
    '  SSLEngine on',
    '</VirtualHost>',
  ]
  return `${lines.join('\n')}\n`
}
