/** Caddy as an ACME client, from a Caddyfile as its manual has it. */

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Daemon, startDaemon } from './daemon.ts'
import { mustRun } from './run-command.ts'

export interface CaddyOptions {
  /** Everything that it keeps is here; a second start continues with it. */
  folder: string
  names: readonly string[]
  directoryUrl: string
  /** This root vouches for the directory, when that is over TLS. */
  rootFile?: string
  http01Port: number
  /** Where it serves the names, and answers tls-alpn-01. */
  httpsPort: number
  /** The only one it uses. */
  method: 'http-01' | 'tls-alpn-01'
  binding?: { kid: string; hmacKey: string }
  /** The part of a certificate's life in which it is renewed; a Caddyfile cannot say it. */
  renewalRatio?: number
}

interface CaddyConfig {
  apps: { tls: { automation: { policies: [{ renewal_window_ratio?: number }] } } }
}

export async function startCaddy(options: CaddyOptions): Promise<Daemon> {
  const { folder, renewalRatio } = options
  const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  mkdirSync(folder, { recursive: true })
  const source = path.join(folder, 'Caddyfile')
  writeFileSync(source, caddyfile(options))
  const output = await mustRun('caddy', ['adapt', '--config', source, '--adapter', 'caddyfile'], { env })
  // Remarks about the file go before and after the configuration.
  const json = output.split('\n').find((line) => line.startsWith('{"admin"')) ?? ''
  const config = JSON.parse(json) as CaddyConfig
  if (renewalRatio) config.apps.tls.automation.policies[0].renewal_window_ratio = renewalRatio
  const file = path.join(folder, 'caddy.json')
  writeFileSync(file, JSON.stringify(config))
  return startDaemon('caddy', ['run', '--config', file], { logFile: path.join(folder, 'log'), env })
}

function caddyfile({
  folder,
  names,
  directoryUrl,
  rootFile,
  http01Port,
  httpsPort,
  binding,
  method,
}: CaddyOptions): string {
  const globals = [
    'admin off',
    `storage file_system "${folder}/store"`,
    `http_port ${http01Port}`,
    `https_port ${httpsPort}`,
    'default_bind 127.0.0.1',
    'email admin@caddy.test',
    `acme_ca ${directoryUrl}`,
    ...(rootFile ? [`acme_ca_root "${rootFile}"`] : []),
    ...(binding ? ['acme_eab {', `  key_id ${binding.kid}`, `  mac_key ${binding.hmacKey}`, '}'] : []),
  ]
  const unused = method === 'http-01' ? 'disable_tlsalpn_challenge' : 'disable_http_challenge'
  const site = ['tls {', '  issuer acme {', `    ${unused}`, '  }', '}', 'respond "served"']
  return `{\n${globals.join('\n')}\n}\n${names.join(', ')} {\n${site.join('\n')}\n}\n`
}

/** The file with the chain for this name, once it is there. */
export function caddyChain(folder: string, name: string): string | undefined {
  const store = path.join(folder, 'store')
  if (!existsSync(store)) return undefined
  const found = readdirSync(store, { recursive: true, encoding: 'utf8' }).find((file) => file.endsWith(`${name}.crt`))
  return found && path.join(store, found)
}
