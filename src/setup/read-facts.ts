/** Looks at the host; changes nothing. */

import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { PATHS, SERVICE, SIGNER } from '../installation/places.ts'
import { INSTALLATION } from '../shared/lib/program-files.ts'
import type { DeployFiles, Facts } from './facts.ts'
import { hasProgram } from './host.ts'

/** A checkout has these files beside its programs, a package among its documentation. */
const DEPLOY_PLACES = [
  path.join(INSTALLATION, 'deploy'),
  '/usr/share/doc/chancery/examples',
  '/usr/share/doc/chancery/deploy',
]
const DEPLOY_FILES = [
  'systemd/chancery.service',
  'systemd/chancery-signer.service',
  'proxy/nginx.conf',
  'proxy/haproxy.cfg',
]
/** Debian's packages put the two programs into folders of their own. */
const isPackage = INSTALLATION.startsWith('/usr/lib/')
const packaged = {
  service: ['/usr/bin/chancery'],
  signer: existsSync('/usr/bin/chancery-signer') ? ['/usr/bin/chancery-signer'] : undefined,
}
const inCheckout = (file: string) => [process.execPath, path.join(INSTALLATION, 'dist', file)]
const UNIT_PLACES = ['/usr/lib/systemd/system', '/lib/systemd/system']
const SOFTHSM = [
  '/usr/lib/softhsm/libsofthsm2.so',
  '/usr/lib64/softhsm/libsofthsm2.so',
  '/usr/lib64/pkcs11/libsofthsm2.so',
]

export function readFacts(): Facts {
  const isUser = (name: string) => spawnSync('id', [name], { stdio: 'ignore' }).status === 0
  return {
    // A systemctl without a systemd to speak to fails here.
    canStart: spawnSync('systemctl', ['list-units', '--no-pager'], { stdio: 'ignore' }).status === 0,
    users: [SERVICE, SIGNER].filter(isUser),
    unitsInstalled: UNIT_PLACES.some((folder) => existsSync(path.join(folder, 'chancery.service'))),
    postgres: newestPostgres(),
    postgresPorts: runningPostgres(),
    openPorts: listening(),
    softhsm: SOFTHSM.find((file) => existsSync(file)),
    hasOpenssl: hasProgram('openssl'),
    programs: isPackage ? packaged : { service: inCheckout('src/cli/main.js'), signer: inCheckout('signer/start.cjs') },
    deploy: readDeploy(),
    files: readFiles(),
  }
}

/** Debian's packages have a folder for each version. */
function newestPostgres(): number | undefined {
  const folder = '/usr/lib/postgresql'
  const versions = existsSync(folder) ? readdirSync(folder).map(Number) : []
  return versions.filter((one) => one > 0).sort((a, b) => b - a)[0]
}

/** Each cluster has a socket named after its port. */
function runningPostgres(): number[] {
  const folder = '/run/postgresql'
  const names = existsSync(folder) ? readdirSync(folder) : []
  return names.flatMap((name) => /^\.s\.PGSQL\.(\d+)$/.exec(name)?.slice(1).map(Number) ?? []).sort((a, b) => a - b)
}

/** No port is listed while the service runs, which holds its ports itself. Column 2 is the local address, column 4 the state; 0A is LISTEN. */
function listening(): number[] {
  if (spawnSync('systemctl', ['is-active', '--quiet', SERVICE]).status === 0) return []
  const lines = ['/proc/net/tcp', '/proc/net/tcp6']
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8'))
  return [...lines.join('').matchAll(/^\s*\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A /gm)].map(([, port]) =>
    Number(`0x${port}`),
  )
}

function readDeploy(): DeployFiles {
  const found = DEPLOY_FILES.flatMap((name) => {
    const file = DEPLOY_PLACES.map((folder) => path.join(folder, name)).find((one) => existsSync(one))
    return file === undefined ? [] : [[name, readFileSync(file, 'utf8')] as const]
  })
  return Object.fromEntries(found)
}

function readFiles(): Record<string, string> {
  const wanted = [...Object.values(PATHS), `${PATHS.rootCa}/root.pem`, `${PATHS.rootCa}/issuer.pem`]
  return Object.fromEntries(
    wanted.flatMap((file) => {
      try {
        return [[file, readFileSync(file, 'utf8')] as const]
      } catch {
        // The path is missing, or a folder.
        return []
      }
    }),
  )
}
