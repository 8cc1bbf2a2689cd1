/** Web servers that get certificates for themselves (RFC 8555): Apache with mod_md through http-01, Caddy through http-01 and tls-alpn-01. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect } from 'node:tls'
import { type Apache, startApache } from '../support/apache.ts'
import { caddyChain, startCaddy } from '../support/caddy.ts'
import { type Daemon, waitFor } from '../support/daemon.ts'
import { type EmbeddedService, startEmbedded } from '../support/embedded.ts'
import { embeddedQuery } from '../support/embedded-database.ts'
import { freePort } from '../support/free-port.ts'
import { type IssuedChecks, issuedChecks } from '../support/issued.ts'
import { requireCommand } from '../support/requirements.ts'

describe('web servers', requireCommand('openssl'), () => {
  let service: EmbeddedService
  let checks: IssuedChecks
  before(async () => {
    service = await startEmbedded()
    checks = issuedChecks(service.rootFile, (sql, values) => embeddedQuery(service, sql, values))
  })
  after(() => service?.dispose())

  /** The serial number that a browser which trusts the development root is shown; undefined when there is no such connection. */
  function servedSerialNumber(port: number, servername: string): Promise<string | undefined> {
    return new Promise((resolve) => {
      const socket = connect({ host: '127.0.0.1', port, servername, ca: readFileSync(service.rootFile) }, () => {
        resolve(socket.getPeerCertificate().serialNumber)
        socket.end()
      })
      socket.once('error', () => resolve(undefined))
    })
  }

  /** Soon, that is: what is stored is put to use a moment later. */
  async function assertServed(server: Daemon, port: number, name: string, leaf: X509Certificate): Promise<void> {
    await waitFor(`${name} is served with ${leaf.serialNumber}`, server, async () =>
      (await servedSerialNumber(port, name)) === leaf.serialNumber ? true : undefined,
    )
  }

  /** The chain in this file, once it is there and another one than before. */
  function newChain(server: Daemon, file: () => string | undefined, former?: X509Certificate): Promise<string> {
    return waitFor('a new certificate', server, () => {
      const found = file()
      // mod_md renames folders while it puts a new certificate in place.
      if (found === undefined || !existsSync(found)) return undefined
      const text = readFileSync(found, 'utf8')
      return /END CERTIFICATE/.test(text) && new X509Certificate(text).serialNumber !== former?.serialNumber
        ? found
        : undefined
    })
  }

  describe('Apache mod_md', requireCommand('apache2'), () => {
    const names = ['apache-a.test', 'apache-b.test']
    let httpsPort: number
    let apache: Apache | undefined
    let first: X509Certificate
    before(async () => {
      httpsPort = await freePort()
      apache = startApache({
        names,
        httpsPort,
        directoryUrl: service.directoryUrl,
        rootFile: service.rootFile,
        http01Port: service.http01Port,
      })
    })
    after(() => apache?.dispose())

    /** A new certificate waits until Apache reads its configuration again. */
    async function activate({ daemon, chain, reload }: Apache, former?: X509Certificate): Promise<X509Certificate> {
      await newChain(daemon, () => chain('staging'), former)
      reload()
      return checks.checkFile(await newChain(daemon, () => chain('domains'), former), names, former)
    }

    test('obtains a certificate for two names and serves it', async () => {
      assert.ok(apache)
      first = await activate(apache)
      await assertServed(apache.daemon, httpsPort, names[1] ?? '', first)
    })

    test('renews it and serves the new one', async () => {
      assert.ok(apache)
      apache.setRenewWindow('4000d')
      apache.reload()
      const second = await activate(apache, first)
      await assertServed(apache.daemon, httpsPort, names[0] ?? '', second)
    })
  })

  for (const method of ['http-01', 'tls-alpn-01'] as const) {
    describe(`Caddy through ${method}`, requireCommand('caddy'), () => {
      const names = ['a', 'b'].map((letter) => `caddy-${method}-${letter}.test`)
      let folder: string
      let httpsPort: number
      let caddy: Daemon | undefined
      const first = new Map<string, X509Certificate>()
      before(async () => {
        folder = path.join(service.dataDir, `interop-caddy-${method}`)
        // tls-alpn-01 is answered where the names are served.
        httpsPort = method === 'tls-alpn-01' ? service.tlsAlpn01Port : await freePort()
      })
      after(() => caddy?.stop())

      const start = (served: readonly string[], renewalRatio?: number) =>
        startCaddy({
          folder,
          names: served,
          httpsPort,
          directoryUrl: service.directoryUrl,
          rootFile: service.rootFile,
          http01Port: service.http01Port,
          method,
          ...(renewalRatio && { renewalRatio }),
        })

      test('obtains a certificate for each of two names and serves them', async () => {
        // A first start with two names registers an account for each, stores both under one name, and may keep the URL of one with the key
        // of the other: the next start then signs with the wrong key (Caddy 2.6.2).
        caddy = await start(names.slice(0, 1))
        await newChain(caddy, () => caddyChain(folder, names[0] ?? ''))
        await caddy.stop()
        caddy = await start(names)
        for (const name of names) {
          const leaf = checks.checkFile(await newChain(caddy, () => caddyChain(folder, name)), [name])
          first.set(name, leaf)
          await assertServed(caddy, httpsPort, name, leaf)
          assert.deepEqual(await checks.methodsFor(name), [method])
        }
        await caddy.stop()
      })

      test('renews them when it starts within the time of renewal', async () => {
        await caddy?.stop()
        caddy = await start(names, 1)
        for (const name of names) {
          const former = first.get(name)
          const leaf = checks.checkFile(await newChain(caddy, () => caddyChain(folder, name), former), [name], former)
          await assertServed(caddy, httpsPort, name, leaf)
        }
        await caddy.stop()
      })
    })
  }
})
