/** Web servers that get certificates for themselves (RFC 8555, http-01): Apache with mod_md, and Caddy. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { caddyChain, startCaddy } from '../support/caddy.ts'
import { type Daemon, startDaemon, waitFor } from '../support/daemon.ts'
import { type EmbeddedService, startEmbedded } from '../support/embedded.ts'
import { embeddedQuery } from '../support/embedded-database.ts'
import { type IssuedChecks, issuedChecks } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'
import { freePort } from '../support/service.ts'

describe('web servers', { ...requireCommand('openssl'), timeout: 120_000 }, () => {
  let service: EmbeddedService
  let checks: IssuedChecks
  before(async () => {
    service = await startEmbedded()
    checks = issuedChecks(service.rootFile, (sql, values) => embeddedQuery(service, sql, values))
  })
  after(() => service?.dispose())

  /** What a browser that trusts the development root is shown for this name. */
  function servedCertificate(port: number, servername: string): Promise<X509Certificate> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, servername, ca: readFileSync(service.rootFile) }, () => {
        resolve(new X509Certificate(socket.getPeerCertificate().raw))
        socket.end()
      })
      socket.once('error', reject)
    })
  }

  /** The chain in this file, once it is there and another one than before. */
  function newChain(server: Daemon, file: () => string | undefined, former?: X509Certificate): Promise<string> {
    return waitFor('a new certificate', server, () => {
      const found = file()
      if (found === undefined || !existsSync(found)) return undefined
      const text = readFileSync(found, 'utf8')
      return /END CERTIFICATE/.test(text) && new X509Certificate(text).serialNumber !== former?.serialNumber
        ? found
        : undefined
    })
  }

  describe('Apache mod_md', requireCommand('apache2'), () => {
    const names = ['apache-a.test', 'apache-b.test']
    let folder: string
    let httpsPort: number
    let apache: Daemon
    let first: X509Certificate
    before(async () => {
      // Apache's children give up root; they must get through to what they read and store.
      folder = mkdtempSync(path.join(tmpdir(), 'chancery-apache-'))
      chmodSync(folder, 0o755)
      copyFileSync(service.rootFile, path.join(folder, 'root.pem'))
      httpsPort = await freePort()
      configure('33%')
      apache = startDaemon('apache2', ['-d', folder, '-f', path.join(folder, 'apache.conf'), '-DFOREGROUND'], {
        logFile: path.join(folder, 'log'),
      })
    })
    after(async () => {
      await apache?.stop()
      if (folder) rmSync(folder, { recursive: true, force: true })
    })

    function configure(renewWindow: string): void {
      const modules = ['mpm_event', 'authz_core', 'ssl', 'md']
      const lines = [
        ...modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`),
        `DefaultRuntimeDir "${folder}"`,
        `Mutex "file:${folder}" default`,
        `PidFile "${folder}/pid"`,
        'ErrorLog /dev/stderr',
        'LogLevel md:info',
        'User www-data',
        'Group www-data',
        'ServerName localhost',
        `Listen 127.0.0.1:${service.http01Port}`,
        `Listen 127.0.0.1:${httpsPort} https`,
        `MDPortMap http:${service.http01Port} https:${httpsPort}`,
        `MDStoreDir "${folder}/md"`,
        `MDCertificateAuthority ${service.directoryUrl}`,
        `MDCACertificateFile "${folder}/root.pem"`,
        'MDRetryDelay 1s',
        'MDCertificateAgreement accepted',
        'MDCAChallenges http-01',
        'MDPrivateKeys P-256',
        'MDStapling off',
        'MDContactEmail admin@apache.test',
        `MDRenewWindow ${renewWindow}`,
        `MDomain ${names.join(' ')}`,
        `<VirtualHost 127.0.0.1:${httpsPort}>`,
        `  ServerName ${names[0]}`,
        `  ServerAlias ${names[1]}`,
        '  SSLEngine on',
        '</VirtualHost>',
      ]
      writeFileSync(path.join(folder, 'apache.conf'), `${lines.join('\n')}\n`)
    }

    const stored = (group: 'domains' | 'staging') => {
      const certificates = path.join(folder, 'md', group, names[0] ?? '')
      if (!existsSync(certificates)) return undefined
      const chain = readdirSync(certificates).find((name) => /^pubcert.*\.pem$/.test(name))
      return chain && path.join(certificates, chain)
    }

    /** A certificate waits until Apache reads its configuration again, as `apachectl graceful` makes it. */
    async function activate(former?: X509Certificate): Promise<X509Certificate> {
      await newChain(apache, () => stored('staging'), former)
      apache.process.kill('SIGUSR1')
      return checks.checkFile(await newChain(apache, () => stored('domains'), former), names, former)
    }

    test('obtains a certificate for two names and serves it', async () => {
      first = await activate()
      assert.equal((await servedCertificate(httpsPort, names[1] ?? '')).serialNumber, first.serialNumber)
    })

    test('renews it and serves the new one', async () => {
      configure('4000d')
      apache.process.kill('SIGUSR1')
      const second = await activate(first)
      assert.equal((await servedCertificate(httpsPort, names[0] ?? '')).serialNumber, second.serialNumber)
    })
  })

  describe('Caddy', requireCommand('caddy'), () => {
    const names = ['caddy-a.test', 'caddy-b.test']
    let folder: string
    let httpsPort: number
    let caddy: Daemon | undefined
    const first = new Map<string, X509Certificate>()
    before(async () => {
      folder = path.join(service.dataDir, 'interop-caddy')
      httpsPort = await freePort()
    })
    after(() => caddy?.stop())

    const start = (renewalRatio?: number) =>
      startCaddy({
        ...{ folder, names, httpsPort, directoryUrl: service.directoryUrl, rootFile: service.rootFile },
        ...{ http01Port: service.http01Port, ...(renewalRatio && { renewalRatio }) },
      })

    test('obtains a certificate for each of two names and serves them', async () => {
      caddy = await start()
      for (const name of names) {
        const leaf = checks.checkFile(await newChain(caddy, () => caddyChain(folder, name)), [name])
        first.set(name, leaf)
        assert.equal((await servedCertificate(httpsPort, name)).serialNumber, leaf.serialNumber)
      }
      await caddy.stop()
    })

    test('renews them when it starts within the time of renewal', async () => {
      caddy = await start(1)
      for (const name of names) {
        const former = first.get(name)
        checks.checkFile(await newChain(caddy, () => caddyChain(folder, name), former), [name], former)
      }
    })
  })
})
