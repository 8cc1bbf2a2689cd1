/**
 * The embedded mode of `npm start` and `--dev`: everything for a first certificate on one machine.
 *
 * It brings a development CA, an embedded PostgreSQL and a server certificate from that CA. Names under `.test` and
 * `.localhost` resolve to loopback through the service's resolver settings. http-01 and tls-alpn-01 use unprivileged
 * ports. So an unmodified client needs neither DNS nor root.
 */

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { stringify } from 'yaml'
import { formatErrors, parseConfigText } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { assertPortFree } from '../http/start-checks.ts'
import { runService } from '../main/run-service.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import { shellWord } from '../shared/lib/terminal.ts'
import { EC_CURVES } from '../shared/protocol/jwk.ts'
import { JWS_ALGORITHMS } from '../shared/protocol/jws.ts'
import { ensureDevCa } from './dev-ca.ts'
import type { DevCaFiles } from './dev-ca-certificates.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from './postgres.ts'

export interface DevOptions {
  dataDir: string
  port: number
  http01Port: number
  /** Port of a local name server, for wildcards. Without it no DNS method is offered. */
  dns01Port: number | undefined
  /** Offers dns-persist-01 as well. Its challenge has no token, on which some clients fail. */
  dnsPersist: boolean
  tlsAlpn01Port: number
  logLevel: Config['logging']['level']
  workers: number | undefined
  /** A validator module, as written after `ext:`. */
  validator: string | undefined
  /** Offers the Admin API and the console, over plain HTTP on loopback. */
  consolePort: number | undefined
  /** Publishes a CRL, also over plain HTTP. */
  crlPort: number | undefined
}

/**
 * @returns the exit code
 * @throws Error in a plain sentence when a part cannot start
 */
export async function runEmbedded(options: DevOptions): Promise<number> {
  const progress = createProgress()
  try {
    await requireFreePorts(options)
    // PostgreSQL's user must traverse it; secret files inside have their own modes.
    mkdirSync(options.dataDir, { recursive: true, mode: 0o755 })
    progress.begin('creating the development CA')
    const { files } = await ensureDevCa(path.join(options.dataDir, 'ca'), new Date())
    progress.begin('starting PostgreSQL')
    const postgres = await startEmbeddedPostgres({
      dataDir: path.join(options.dataDir, 'postgres'),
      log: progress.note,
    })
    try {
      return await serveEmbedded(options, files, postgres, progress)
    } finally {
      await postgres.stop()
    }
  } finally {
    // Ends the line of a failed step before its reason is printed.
    progress.end()
  }
}

/** Runs before CA and database are made. @throws Error that names the option */
async function requireFreePorts({ port, consolePort, crlPort }: DevOptions): Promise<void> {
  const ports = { '--port': port, '--console-port': consolePort, '--crl-port': crlPort }
  for (const [option, wanted] of Object.entries(ports)) {
    if (wanted === undefined) continue
    try {
      await assertPortFree('127.0.0.1', wanted)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const reason = code === 'EADDRINUSE' ? 'is in use' : `cannot be had (${code})`
      throw new Error(`port ${wanted} of 127.0.0.1 ${reason}; give another with ${option}`, { cause })
    }
  }
}

function serveEmbedded(
  options: DevOptions,
  files: DevCaFiles,
  postgres: EmbeddedPostgres,
  progress: ReturnType<typeof createProgress>,
): Promise<number> {
  return runService(devConfig(options, files, postgres), {
    onStep: progress.begin,
    onReady({ directoryUrl }) {
      progress.end()
      process.stderr.write(welcome(directoryUrl, files.root, postgres.folder, options))
    },
    onStop: () => process.stderr.write('\nStopping …\n'),
  })
}

function devConfig(options: DevOptions, ca: DevCaFiles, postgres: EmbeddedPostgres): Config {
  const { dataDir, port, http01Port, tlsAlpn01Port, dns01Port, dnsPersist } = options
  const resolvers = dns01Port === undefined ? [] : [`127.0.0.1:${dns01Port}`]
  const blocked_networks = ['169.254.0.0/16', 'fe80::/10']
  const text = stringify({
    server: {
      external_url: `https://localhost:${port}`,
      bind: '127.0.0.1',
      port,
      ...(options.workers !== undefined && { workers: options.workers }),
      tls: {
        cert_path: path.join(dataDir, 'server', 'cert.pem'),
        key_path: path.join(dataDir, 'server', 'key.pem'),
        self_issued_names: ['localhost', '127.0.0.1'],
      },
    },
    database: { ...postgres.connection, sslmode: 'disable', auto_setup: true },
    ca: {
      internal: { root_cert_path: ca.intermediate, root_key_path: ca.intermediateKey, chain_path: ca.root },
      signer: { audit_file: path.join(dataDir, 'signer-audit.jsonl') },
    },
    challenges: {
      enabled: [
        'http-01',
        'tls-alpn-01',
        ...(dns01Port === undefined ? [] : ['dns-01', 'dns-account-01']),
        ...(dnsPersist ? ['dns-persist-01'] : []),
        ...(options.validator === undefined ? [] : [`ext:${options.validator}`]),
      ],
      http01: { port: http01Port, blocked_networks },
      tlsalpn01: { port: tlsAlpn01Port, blocked_networks },
    },
    dns: {
      zones: [
        { zone: 'test', addresses: ['127.0.0.1'], resolvers },
        { zone: 'localhost', addresses: ['127.0.0.1'] },
      ],
    },
    ari: { enabled: true },
    ...(options.consolePort !== undefined && { admin_api: adminApi(dataDir, options.consolePort) }),
    ...(options.crlPort !== undefined && { crl: { enabled: true, http_port: options.crlPort } }),
    // All clients are on this machine, so limits by address would only block the person trying it out, and its names
    // are all there is to order. Any client may come: HAProxy makes a P-384 key.
    security: {
      rate_limits: { enabled: false },
      identifier_policy: { forbidden_domains: [] },
      allowed_algorithms: keysOf(JWS_ALGORITHMS),
      allowed_ec_curves: keysOf(EC_CURVES),
    },
    metrics: { enabled: true },
    logging: { level: options.logLevel, format: 'human' },
  })
  const parsed = parseConfigText(text, { format: 'yaml', env: {} })
  if (!parsed.ok) throw new Error(`the embedded configuration is broken:\n${formatErrors(parsed.errors)}`)
  writeFileSync(
    path.join(dataDir, 'chancery.yaml'),
    `# Written at each start of the embedded mode, for reading.\n${text}`,
    { mode: 0o600 },
  )
  return parsed.config
}

/** The address has a name, because passkeys do not work at an IP address. */
const consoleUrl = (port: number) => `http://localhost:${port}/api/console/`

/** A browser trusts plain HTTP to this machine, but not yet the development CA. */
function adminApi(dataDir: string, port: number) {
  const listen = { bind: '127.0.0.1', port }
  return {
    enabled: true,
    token_secret: adminSecret(dataDir),
    initial_admin_email: 'admin@demo.test',
    console_url: consoleUrl(port),
    listen,
  }
}

/** Kept, so that sessions and stored keys outlive a restart. */
function adminSecret(dataDir: string): string {
  const file = path.join(dataDir, 'admin-token-secret')
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString('base64url'), { mode: 0o600 })
  return readFileSync(file, 'utf8')
}

/** Prints each step with its duration: live on a terminal, otherwise when it has ended. */
function createProgress() {
  const asItGoes = process.stderr.isTTY === true
  let current: { title: string; startedAt: number; notes: string[] } | undefined
  const end = () => {
    if (!current) return
    const { title, startedAt, notes } = current
    const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
    process.stderr.write(`${asItGoes ? '' : `${title} … `}${seconds} s\n${notes.map((note) => `  ${note}\n`).join('')}`)
    current = undefined
  }
  return {
    begin(title: string) {
      end()
      current = { title: title.charAt(0).toUpperCase() + title.slice(1), startedAt: Date.now(), notes: [] }
      if (asItGoes) process.stderr.write(`${current.title} … `)
    },
    end,
    note: (line: string) => current?.notes.push(line),
  }
}

const consoleLine = (port: number) =>
  `  console           ${consoleUrl(port)} (as admin; the first start has printed the password)\n`

function welcome(
  directoryUrl: string,
  rootFile: string,
  databaseFolder: string,
  { http01Port, tlsAlpn01Port, dataDir, consolePort }: DevOptions,
): string {
  const root = shellWord(rootFile)
  const inData = (name: string) => shellWord(path.join(dataDir, name))
  const elsewhere = databaseFolder.startsWith(dataDir + path.sep) ? '' : ` and ${databaseFolder}`
  return `
Chancery is ready.

  directory         ${directoryUrl}
  root certificate  ${rootFile}
${consolePort === undefined ? '' : consoleLine(consolePort)}
Get a certificate for demo.test on this machine (http-01 asks port ${http01Port}, tls-alpn-01 port ${tlsAlpn01Port};
.test and .localhost resolve to 127.0.0.1):

  curl     curl --cacert ${root} ${directoryUrl}

  certbot  REQUESTS_CA_BUNDLE=${root} certbot certonly --standalone --http-01-port ${http01Port} \\
             --server ${directoryUrl} --register-unsafely-without-email --agree-tos -n -d demo.test \\
             --config-dir ${inData('certbot')} --work-dir ${inData('certbot')} --logs-dir ${inData('certbot')}

  lego     LEGO_CA_CERTIFICATES=${root} lego --server ${directoryUrl} --http --http.port :${http01Port} \\
             --email admin@demo.test --accept-tos --domains demo.test --path ${inData('lego')} run

Stop with Ctrl-C; the next start goes on with the same data in ${dataDir}${elsewhere}.

`
}
