/** Caddy (Debian: caddy) as an ACME service: its `acme_server` with a CA of its own, in a folder of its own, on loopback. */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { startDaemon, waitFor } from './daemon.ts'
import { freePort } from './free-port.ts'

export interface CaddyCa {
  directoryUrl: string
  /** PEM file of its root, which vouches for its TLS certificate, too. */
  rootFile: string
  output(): string
  stop(): Promise<void>
}

/** It asks http-01 at port 80, and names at the name server of the machine; an address needs none. */
export async function startCaddyCa(): Promise<CaddyCa> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-caddy-ca-'))
  const [httpPort, httpsPort] = [await freePort(), await freePort()]
  const config = path.join(folder, 'Caddyfile')
  const globals = [
    'admin off',
    'skip_install_trust',
    'auto_https disable_redirects',
    'default_bind 127.0.0.1',
    `storage file_system "${folder}/store"`,
    `http_port ${httpPort}`,
    `https_port ${httpsPort}`,
  ]
  writeFileSync(config, `{\n${globals.join('\n')}\n}\nhttps://127.0.0.1:${httpsPort} {\ntls internal\nacme_server\n}\n`)
  const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const daemon = startDaemon('caddy', ['run', '--config', config, '--adapter', 'caddyfile'], {
    logFile: path.join(folder, 'log'),
    env,
  })
  const rootFile = path.join(folder, 'store', 'pki', 'authorities', 'local', 'root.crt')
  const directoryUrl = `https://127.0.0.1:${httpsPort}/acme/local/directory`
  await waitFor('Caddy answers', daemon, async () =>
    existsSync(rootFile) && (await answers(directoryUrl, rootFile)) ? true : undefined,
  )
  return {
    directoryUrl,
    rootFile,
    output: daemon.output,
    async stop() {
      await daemon.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function answers(url: string, rootFile: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(url, { ca: readFileSync(rootFile), agent: false }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode === 200))
    })
    asked.on('error', () => resolve(false)).end()
  })
}
