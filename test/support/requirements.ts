/**
 * Programs that some tests need and that are not ours to bring: what they are called, and how to get them.
 *
 * A test that needs one says `describe('certbot', requireCommand('certbot'), …)`. Where the program is missing the suite is
 * skipped with one line that says how to enable it; `CHANCERY_REQUIRE_ALL=1` (set by `.ci/run`) makes that a failure.
 */

import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import path from 'node:path'

/** Program → the Debian package that has it. */
export const DEBIAN_PACKAGES = {
  'acme-tiny': 'acme-tiny',
  // The program and its modules without Debian's site configuration and service.
  apache2: 'apache2-bin',
  buildah: 'buildah',
  caddy: 'caddy',
  certbot: 'certbot',
  certtool: 'gnutls-bin',
  'chromium-headless-shell': 'chromium-headless-shell',
  crun: 'crun',
  dehydrated: 'dehydrated',
  dh: 'debhelper',
  'dnssec-signzone': 'bind9-utils',
  etcd: 'etcd-server',
  faketime: 'faketime',
  knotd: 'knot',
  // Also what compiles the native half of graphene-pk11, together with make and python3.
  'g++': 'g++',
  go: 'golang-go',
  haproxy: 'haproxy',
  ip: 'iproute2',
  lego: 'lego',
  lintian: 'lintian',
  mmdebstrap: 'mmdebstrap',
  nft: 'nftables',
  nginx: 'nginx-light',
  nsupdate: 'bind9-dnsutils',
  openssl: 'openssl',
  patroni: 'patroni',
  pebble: 'pebble',
  // Its wrapper; Debian keeps the programs of a server out of the PATH.
  pg_createcluster: 'postgresql',
  pgbouncer: 'pgbouncer',
  podman: 'podman',
  promtool: 'prometheus',
  // Debian's own, which sees the Python packages of Debian.
  python3: 'python3-cryptography',
  rsyslogd: 'rsyslog-openssl',
  'softhsm2-util': 'softhsm2',
  strip: 'binutils',
  'systemd-analyze': 'systemd',
  uacme: 'uacme',
  unbound: 'unbound',
} as const

export type RequiredCommand = keyof typeof DEBIAN_PACKAGES

/** Where Debian's packages put the sources of libraries. */
export const GO_LIBRARIES = '/usr/share/gocode'

const MULTIARCH = process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu'

/** Modules that tests need beside the program: rsyslogd also comes with a GnuTLS driver alone. One of the files is enough. */
const MODULES: { readonly [C in RequiredCommand]?: readonly string[] } = {
  apache2: ['/usr/lib/apache2/modules/mod_md.so'],
  // The versions are Debian 12's, 13's, and 14's.
  pg_createcluster: [15, 17, 18].map((version) => `/usr/lib/postgresql/${version}/bin/pg_rewind`),
  rsyslogd: [
    '/usr/lib/rsyslog/lmnsd_ossl.so',
    '/usr/lib64/rsyslog/lmnsd_ossl.so',
    `/usr/lib/${MULTIARCH}/rsyslog/lmnsd_ossl.so`,
  ],
  'softhsm2-util': ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/softhsm/libsofthsm2.so'],
}

/**
 * Options for `describe` or `test`: skips when the program is not on the PATH, or lacks a module that tests need.
 * @throws Error instead of skipping when nothing may be skipped
 */
export function requireCommand(command: RequiredCommand): { skip: string | false } {
  if (isUsable(command)) return { skip: false }
  const what = hasCommand(command)
    ? `${command} lacks its module ${MODULES[command]?.[0]}`
    : `${command} is not installed`
  return skipUnlessAllRequired(`${what}; to enable: apt-get install ${DEBIAN_PACKAGES[command]}`)
}

/** @throws Error when nothing may be skipped */
export function skipUnlessAllRequired(reason: string): { skip: string } {
  if (process.env['CHANCERY_REQUIRE_ALL'] === '1') throw new Error(`${reason} (CHANCERY_REQUIRE_ALL=1 skips nothing)`)
  return { skip: reason }
}

/** Does for libraries of Go in Debian's packages what `requireCommand` does. */
export function requireGoLibraries(...libraries: readonly string[]): { skip: string | false } {
  const missing = libraries.filter((library) => !existsSync(path.join(GO_LIBRARIES, 'src', library)))
  if (missing.length === 0) return requireCommand('go')
  const packages = missing.map((library) => `golang-${library.replace('.com', '').replaceAll('/', '-')}-dev`)
  return skipUnlessAllRequired(
    `${missing.join(' and ')} is not installed; to enable: apt-get install ${packages.join(' ')}`,
  )
}

/**
 * Does for an optional package what `requireCommand` does: npm leaves it out where its native half could not be compiled.
 */
export function requirePackage(name: string): { skip: string | false } {
  try {
    createRequire(import.meta.url).resolve(name)
    return { skip: false }
  } catch {
    return skipUnlessAllRequired(`${name} is not installed; to enable: apt-get install g++ make python3, then npm ci`)
  }
}

/** For programs that ask a port that cannot be chosen. Below 1024 a test needs root, or a system that gives everybody these. */
export async function requirePort(port: number, address: string): Promise<{ skip: string | false }> {
  const server = createServer()
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    server.once('error', resolve).listen(port, address, () => server.close(() => resolve(undefined)))
  })
  return error ? skipUnlessAllRequired(`cannot listen on ${address}:${port}: ${error.code}`) : { skip: false }
}

/** The first reason to skip, if there is any. */
export function requireAll(...requirements: readonly { skip: string | false }[]): { skip: string | false } {
  return requirements.find(({ skip }) => skip !== false) ?? { skip: false }
}

function isUsable(command: RequiredCommand): boolean {
  const modules = MODULES[command]
  return hasCommand(command) && (modules === undefined || modules.some((file) => existsSync(file)))
}

function hasCommand(command: string): boolean {
  return (process.env['PATH'] ?? '').split(path.delimiter).some((folder) => isExecutable(path.join(folder, command)))
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * Installs what is missing of the given programs, when this is root on a Debian system and `CHANCERY_NO_INSTALL` is not 1.
 * A failure is reported and not fatal: the tests concerned then skip, or fail, by themselves.
 */
export function installMissing(commands: readonly RequiredCommand[], log: (line: string) => void): void {
  const missing = commands.filter((command) => !isUsable(command)).map((command) => DEBIAN_PACKAGES[command])
  const mayInstall = process.getuid?.() === 0 && hasCommand('apt-get') && process.env['CHANCERY_NO_INSTALL'] !== '1'
  if (missing.length === 0 || !mayInstall) return

  const startedAt = Date.now()
  const failure = runApt(['update', '-qq']) ?? runApt(['install', '-y', '-qq', '--no-install-recommends', ...missing])
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(1)
  log(
    failure
      ? `apt-get could not install ${missing.join(', ')}: ${failure}`
      : `Installed ${missing.join(', ')} in ${seconds} s`,
  )
}

/** Undefined when it worked, else what apt-get said last. */
function runApt(args: readonly string[]): string | undefined {
  // Offline: systemd does not start the service that a package brings (Caddy's would take port 80).
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1' }
  const { status, stderr, error } = spawnSync('apt-get', args, {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (status === 0) return undefined
  return error?.message ?? (stderr.trim().split('\n').at(-1) || `exit code ${status}`)
}
