/**
 * Pebble and Caddy (Debian: pebble, caddy), started on loopback with throw-away state and loaded beside this server.
 *
 * Pebble 2.4 keeps everything in memory and locks up under more than a few parallel flows. Caddy 2.6 has no options for
 * the resolver and the ports of challenges, so it runs in a mount namespace with its own resolv.conf. That takes root.
 */

import { randomInt } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Agent, fetch } from 'undici'
import type { Beside, Options } from '../options.ts'
import { asksDns, type ResponderPlaces, startDnsResponder } from '../responder/responders.ts'
import { ACCEPT_ALL, type Contestant, startContestant } from './chancery.ts'
import { freePort, outputOf, startChild } from './child.ts'

/** How one is started, and what the generator then has to know. */
interface Launched {
  directoryUrl: string
  command: readonly string[]
  environment: Readonly<Record<string, string>>
  responders: ResponderPlaces
  /** Once it answers. @returns PEM of the root that issued chains lead to, and the one of its TLS certificate */
  roots(): Promise<{ rootCertificate: string; caCertificates: string | undefined }>
}

interface Other {
  title: string
  version: readonly string[]
  /** Undefined loads it with as many as the first server. */
  clients: number | undefined
  alwaysValidates: boolean
  note: string
  /** @param folder For its files. @param acceptsAll Let it take every challenge for met, where it can. */
  prepare(folder: string, acceptsAll: boolean, signal: AbortSignal): Promise<Launched>
}

const LOOPBACK = '127.0.0.1'

const OTHERS: Record<Beside['name'], Other> = {
  pebble: {
    title: 'Pebble',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the notation of dpkg-query
    version: ['dpkg-query', '--show', '--showformat=${Version}', 'pebble'],
    clients: 4,
    alwaysValidates: false,
    note: 'keeps everything in memory',
    prepare: preparePebble,
  },
  caddy: {
    title: 'Caddy',
    version: ['caddy', 'version'],
    clients: undefined,
    alwaysValidates: true,
    note: 'acme_server, stores in bbolt, always validates',
    prepare: prepareCaddy,
  },
}

/** @throws Error with what it said when it is not installed or does not start */
export async function startBeside(
  { name, clients: wanted }: Beside,
  folder: string,
  options: Options,
  signal: AbortSignal,
): Promise<Contestant> {
  const other = OTHERS[name]
  // The shell fails when there is no such program.
  const isInstalled = await outputOf('sh', ['-c', 'command -v "$1"', 'sh', name], '/', signal).catch(() => '')
  if (isInstalled === '')
    throw new Error(`--beside ${name}: there is no program ${name} here (Debian: apt install ${name})`)
  mkdirSync(folder)
  const [program = '', ...words] = other.version
  // A program that does not tell its version is named without one.
  const version = (await outputOf(program, words, folder, signal).catch(() => '')).split(' ')[0]
  const clients = wanted ?? Math.min(other.clients ?? options.clients, options.clients)
  const title = `${other.title} ${version}`.trim()
  const subject = { name: title, commit: undefined, note: `${clients} clients; ${other.note}` }
  const contestant = await startContestant(subject, () => launch(other, folder, { ...options, clients }, signal))
  return Object.assign(contestant, { alwaysValidates: other.alwaysValidates })
}

/** Starts also a name server that gives every name one address, unless the run's own does so. */
async function launch({ title, prepare }: Other, folder: string, options: Options, signal: AbortSignal) {
  // Other servers know no such type; http-01 is what they take for met.
  const acceptsAll = options.challengeType === ACCEPT_ALL
  const challengeType = acceptsAll ? 'http-01' : options.challengeType
  const { directoryUrl, command, environment, responders, roots } = await prepare(folder, acceptsAll, signal)
  const { host, dnsPort } = responders
  const names = asksDns(challengeType) ? undefined : await startDnsResponder(host, dnsPort, host, new Map())
  try {
    const server = { name: title, command, cwd: folder, environment, answersAt: directoryUrl, cpus: options.serverCpus }
    const { pid, stop } = await startChild(server, signal)
    const known = { directoryUrl, responders, challengeType, pids: [pid], ...(await roots()) }
    const processes = Math.min(options.processes, options.clients)
    return {
      options: { ...options, ...known, processes, insecure: known.caCertificates === undefined },
      async stop() {
        await stop()
        await names?.close()
      },
    }
  } catch (error) {
    await names?.close()
    throw error
  }
}

async function preparePebble(folder: string, acceptsAll: boolean, signal: AbortSignal): Promise<Launched> {
  const ports = [await freePort(), await freePort(), await freePort(), await freePort(), await freePort()]
  const [port, management, http01Port, tlsAlpn01Port, dnsPort] = ports as [number, number, number, number, number]
  const inside = (name: string) => path.join(folder, name)
  const request = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
    '-addext',
    'subjectAltName=DNS:localhost',
    '-keyout',
    inside('key.pem'),
    '-out',
    inside('certificate.pem'),
  ]
  await outputOf('openssl', request, folder, signal)
  const settings = {
    listenAddress: `${LOOPBACK}:${port}`,
    managementListenAddress: `${LOOPBACK}:${management}`,
    certificate: inside('certificate.pem'),
    privateKey: inside('key.pem'),
    httpPort: http01Port,
    tlsPort: tlsAlpn01Port,
    ocspResponderURL: '',
    externalAccountBindingRequired: false,
  }
  writeFileSync(inside('pebble.json'), JSON.stringify({ pebble: settings }))
  return {
    directoryUrl: `https://localhost:${port}/dir`,
    command: ['pebble', '-config', inside('pebble.json'), '-dnsserver', `${LOOPBACK}:${dnsPort}`],
    // No artificial waits, no rejected nonces, no authorization that is valid before it was asked for.
    environment: {
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_WFE_NONCEREJECT: '0',
      PEBBLE_AUTHZREUSE: '0',
      ...(acceptsAll && { PEBBLE_VA_ALWAYS_VALID: '1' }),
    },
    responders: { host: LOOPBACK, http01Port, dnsPort, tlsAlpn01Port },
    async roots() {
      const dispatcher = new Agent({ connect: { rejectUnauthorized: false } })
      const answer = await fetch(`https://localhost:${management}/roots/0`, { dispatcher })
      const rootCertificate = await answer.text()
      await dispatcher.destroy()
      return { rootCertificate, caCertificates: undefined }
    },
  }
}

const WITH_RESOLVER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'

async function prepareCaddy(folder: string): Promise<Launched> {
  if (process.getuid?.() !== 0)
    throw new Error('--beside caddy needs root: Caddy 2.6 connects to port 80 and asks the resolver of the system')
  const port = await freePort()
  // A random address of this machine's loopback network.
  const host = `127.${randomInt(64, 128)}.${randomInt(256)}.${randomInt(1, 255)}`
  const [config, resolver] = [path.join(folder, 'Caddyfile'), path.join(folder, 'resolv.conf')]
  writeFileSync(config, caddyfile(port, folder))
  writeFileSync(resolver, `nameserver ${host}\n`)
  const caddy = ['caddy', 'run', '--config', config, '--adapter', 'caddyfile']
  return {
    directoryUrl: `https://localhost:${port}/acme/local/directory`,
    command: ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', WITH_RESOLVER, 'sh', resolver, ...caddy],
    environment: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    responders: { host, http01Port: 80, dnsPort: 53, tlsAlpn01Port: 443 },
    async roots() {
      const root = readFileSync(path.join(folder, 'storage/pki/authorities/local/root.crt'), 'utf8')
      return { rootCertificate: root, caCertificates: root }
    },
  }
}

function caddyfile(port: number, folder: string): string {
  return `{
  admin off
  skip_install_trust
  auto_https disable_redirects
  storage file_system ${folder}/storage
  log {
    level ERROR
  }
}
https://localhost:${port} {
  bind 127.0.0.1
  tls internal
  acme_server
}
`
}
