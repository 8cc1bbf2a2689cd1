/**
 * Caddy's acme_server (Debian: caddy 2.6), started on loopback with throw-away state.
 *
 * This version can be told neither a resolver nor ports of challenges: it asks what /etc/resolv.conf names, and connects to 80 and 443. So it runs
 * in a mount namespace of its own, with a resolv.conf that names ours, which gives every name an address of this machine's
 * loopback network that nobody else uses. That takes root, as do ports 53, 80 and 443 there.
 */

import { randomInt } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { startChild } from './child.ts'
import { freePort } from './free-port.ts'
import { type Launch, type Launched, startNames } from './launch.ts'

const DNS_PORT = 53
const HTTP_PORT = 80
const TLS_PORT = 443
const WITH_RESOLVER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'

export async function launchCaddy({ folder, cpus, challengeType }: Launch, signal: AbortSignal): Promise<Launched> {
  if (process.getuid?.() !== 0)
    throw new Error('--beside caddy needs root: Caddy 2.6 connects to port 80 and asks the resolver of the system')
  const port = await freePort()
  const address = `127.${randomInt(64, 128)}.${randomInt(256)}.${randomInt(1, 255)}`
  const [config, resolver] = [path.join(folder, 'Caddyfile'), path.join(folder, 'resolv.conf')]
  writeFileSync(config, caddyfile(port, folder))
  writeFileSync(resolver, `nameserver ${address}\n`)

  const responders = { host: address, http01Port: HTTP_PORT, dnsPort: DNS_PORT, tlsAlpn01Port: TLS_PORT }
  const endNames = await startNames(challengeType, address, DNS_PORT)
  const directoryUrl = `https://localhost:${port}/acme/local/directory`
  const caddy = ['caddy', 'run', '--config', config, '--adapter', 'caddyfile']
  try {
    const child = await startChild(
      {
        name: 'Caddy',
        command: [
          'unshare',
          '--mount',
          '--propagation',
          'private',
          'sh',
          '-c',
          WITH_RESOLVER,
          'sh',
          resolver,
          ...caddy,
        ],
        cwd: folder,
        environment: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
        ...{ cpus, answersAt: directoryUrl },
      },
      signal,
    )
    const root = readFileSync(path.join(folder, 'storage/pki/authorities/local/root.crt'), 'utf8')
    return {
      ...{ directoryUrl, pid: child.pid, responders },
      ...{ caCertificates: root, rootCertificate: root },
      stop: async () => {
        await child.stop()
        await endNames()
      },
    }
  } catch (error) {
    await endNames()
    throw error
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
