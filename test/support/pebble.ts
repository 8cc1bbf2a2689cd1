/** Pebble (Debian: pebble): an ACME service of the field, on loopback, that looks at names through a scripted name server. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import https from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { loopbackCertificate, writeCertificate } from './certificates.ts'
import { startDaemon, waitFor } from './daemon.ts'
import { freePort } from './free-port.ts'

export interface Pebble {
  directoryUrl: string
  /** The file of the CA that vouches for its TLS certificate. */
  caFile: string
  http01Port: number
  /** PEM of the root that its certificates chain to, or of an alternate one. */
  root(alternate?: number): Promise<string>
  output(): string
  stop(): Promise<void>
}

export interface PebbleOptions {
  /** `ip:port` of the name server. */
  resolver: string
  /** Share of good nonces that it rejects, in percent. */
  rejectedNonces?: number
  /** kid → base64url of the MAC key; required of new accounts. */
  bindings?: Readonly<Record<string, string>>
  alternateRoots?: number
  /** Certificates between a root and its leaves. */
  intermediates?: number
  /** Share of authorizations that a new order reuses, in percent. */
  reusedAuthorizations?: number
}

/** Without a setting it gives five years. */
const VALIDITY_SECONDS = 90 * 86_400

export async function startPebble({
  resolver,
  rejectedNonces = 0,
  bindings,
  alternateRoots = 0,
  intermediates = 1,
  reusedAuthorizations = 0,
}: PebbleOptions): Promise<Pebble> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-pebble-'))
  const files = writeCertificate(folder, 'pebble', await loopbackCertificate())
  const [port, management, http01Port, tlsPort] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ]
  const settings = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${management}`,
    certificate: files.cert,
    privateKey: files.key,
    httpPort: http01Port,
    tlsPort,
    ocspResponderURL: '',
    certificateValidityPeriod: VALIDITY_SECONDS,
    externalAccountBindingRequired: bindings !== undefined,
    externalAccountMACKeys: bindings,
  }
  const config = path.join(folder, 'pebble.json')
  writeFileSync(config, JSON.stringify({ pebble: settings }))
  const daemon = startDaemon('pebble', ['-config', config, '-strict', '-dnsserver', resolver], {
    logFile: path.join(folder, 'log'),
    env: {
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_WFE_NONCEREJECT: String(rejectedNonces),
      PEBBLE_AUTHZREUSE: String(reusedAuthorizations),
      PEBBLE_ALTERNATE_ROOTS: String(alternateRoots),
      PEBBLE_CHAIN_LENGTH: String(intermediates),
    },
  })
  const directoryUrl = `https://127.0.0.1:${port}/dir`
  await waitFor('Pebble answers', daemon, () => read(directoryUrl).catch(() => undefined))
  return {
    directoryUrl,
    caFile: files.cert,
    http01Port,
    root: (alternate = 0) => read(`https://127.0.0.1:${management}/roots/${alternate}`),
    output: daemon.output,
    async stop() {
      await daemon.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Its certificate vouches for itself. */
function read(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = https.get(url, { rejectUnauthorized: false, agent: false }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      answer.on('end', () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(`${answer.statusCode}`))))
    })
    request.on('error', reject)
  })
}
