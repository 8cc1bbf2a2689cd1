/**
 * This host in a set-up: the facts that are found here, and the effects. Programs run as the user whose files they
 * touch; the rest is files, folders and users.
 */

import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { CLOSED, CLOSED_FOLDER, PATHS, type Place, SERVICE, SIGNER } from '../installation/places.ts'
import { INSTALLATION } from '../shared/lib/program-files.ts'
import type { DeployFiles, Facts } from './facts.ts'
import type { Command, RunWork, Work } from './plan/step.ts'

const RANDOM_BYTES = 32
/** A migration of an empty database takes seconds, an RSA key in a slow token a minute. */
const TIMEOUT_MS = 600_000
/** An error of a program shows the last lines of its output. */
const LAST_LINES = 15

interface Outcome {
  code: number | null
  stdout: string
  /** Standard output and standard error as they came. */
  output: string
}

/** Runs a program as this user, with the variables of the service where it is the service's. */
export function run({ words, as, env = {} }: Command): Promise<Outcome> {
  const [file = '', ...args] = as === 'root' ? words : ['runuser', '-u', as, '--', ...words]
  const { PATH = '/usr/sbin:/usr/bin:/sbin:/bin' } = process.env
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      cwd: '/',
      env: {
        PATH: `${PATH}:/usr/sbin:/sbin`,
        LC_ALL: 'C.UTF-8',
        ...(as === SERVICE && variables(PATHS.serviceEnv)),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
    })
    let [stdout, output] = ['', '']
    child.stdout.on('data', (chunk) => {
      stdout += chunk
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.once('error', (error) => resolve({ code: null, stdout, output: error.message }))
    child.once('close', (code) => resolve({ code, stdout, output }))
  })
}

/** @throws Error with the last lines of what it said, unless it ended with 0 */
export async function mustRun(command: Command): Promise<string> {
  const { code, stdout, output } = await run(command)
  if (code === 0) return stdout
  const [name, ...args] = command.words
  const shown = path.basename(name ?? '') === 'node' ? args.map((word) => path.basename(word)) : command.words
  throw new Error(`${shown.slice(0, 6).join(' ')} ended with ${code ?? 'an error'}:\n${lastLines(output)}`)
}

export const lastLines = (text: string, most = LAST_LINES) => text.trimEnd().split('\n').slice(-most).join('\n')

/** Reads what setup has written as `EnvironmentFile=` of systemd reads it. */
function variables(file: string): Record<string, string> {
  if (!existsSync(file)) return {}
  const lines = [...readFileSync(file, 'utf8').matchAll(/^([A-Z_]+)=(["']?)(.*)\2$/gm)]
  const unquoted = (quote: string, value: string) => (quote === "'" ? value : value.replaceAll(/\\(.)/g, '$1'))
  return Object.fromEntries(lines.map(([, name = '', quote = '', value = '']) => [name, unquoted(quote, value)]))
}

export const hasProgram = (name: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${name}`], { stdio: 'ignore' }).status === 0

/** @returns true where nothing is left to do; false also where that is not known before */
export async function isDone(work: Work): Promise<boolean> {
  switch (work.kind) {
    case 'file':
      return hasRights(work.at) && readFileSync(work.at.path, 'utf8') === work.text
    case 'folder':
      return (work.mayBeOther && isOpen(work.at.path)) || hasRights(work.at)
    case 'random':
      return hasRights(work.at)
    case 'copy':
      return hasRights(work.to) && !(work.isMove && existsSync(work.from))
    case 'user':
      return spawnSync('id', [work.name], { stdio: 'ignore' }).status === 0
    case 'run':
      return isRunDone(work)
    default:
      return false
  }
}

/** Others than root may enter an open folder. A folder that setup made under a strict umask may be closed. */
function isOpen(folder: string): boolean {
  const { mode, gid } = statSync(folder, { throwIfNoEntry: false }) ?? { mode: 0, gid: 0 }
  return (mode & 0o001) !== 0 || ((mode & 0o010) !== 0 && gid !== 0)
}

async function isRunDone({ unless }: RunWork): Promise<boolean> {
  if (unless === undefined) return false
  if (typeof unless === 'string') return (statSync(unless, { throwIfNoEntry: false })?.size ?? 0) > 0
  const { code, stdout } = await run(unless)
  return code === 0 && stdout.trim() !== ''
}

/** Does the work on files, folders, users and programs; `apply.ts` does the rest. */
export async function act(
  work: Exclude<Work, { kind: 'restart' | 'wait' | 'administrator' | 'credential' | 'test-certificate' | 'last-look' }>,
) {
  switch (work.kind) {
    case 'file':
      return writeFile(work.at, work.text)
    case 'folder':
      mkdirSync(work.at.path, { recursive: true, mode: CLOSED_FOLDER })
      return setRightsOf(work.at, constants.O_DIRECTORY)
    case 'random':
      if (existsSync(work.at.path)) return setRightsOf(work.at)
      return writeFile(work.at, `${randomBytes(RANDOM_BYTES).toString('hex')}\n`)
    case 'copy':
      return copy(work)
    case 'user': {
      const groups = work.groups.length > 0 ? ['--groups', work.groups.join(',')] : []
      const places = ['--home-dir', work.home, '--shell', '/usr/sbin/nologin']
      await mustRun({ words: ['useradd', '--system', ...places, ...groups, work.name], as: 'root' })
      return
    }
    case 'run':
      // The command's user renames: in a folder of that user, a link could lead root elsewhere.
      for (const file of (work.leftovers ?? []).filter((one) => existsSync(one)))
        await mustRun({
          words: ['mv', '-T', '--backup=numbered', '--', file, `${file}.unfinished`],
          as: work.command.as,
        })
      await mustRun(work.command).catch((error: Error) => {
        throw work.wayOut === undefined ? error : new Error(`${error.message}\n${work.wayOut}`, { cause: error })
      })
  }
}

/** The file has its rights before it has its name. */
export function writeFile(at: Place, text: string): void {
  mkdirSync(path.dirname(at.path), { recursive: true })
  const half = `${at.path}.new`
  rmSync(half, { force: true })
  withFile(half, 'wx', (fd) => {
    writeFileSync(fd, text)
    fsyncSync(fd)
    setRights(fd, at)
  })
  renameSync(half, at.path)
}

/** The signer's user reads its own folder: a link there then leads to nothing that only root may read. */
async function copy({ from, to, isMove }: Extract<Work, { kind: 'copy' }>): Promise<void> {
  const as = from.startsWith(`${PATHS.signerState}/`) ? SIGNER : 'root'
  const text = await mustRun({ words: ['timeout', '10', 'cat', '--', from], as })
  const isKept = existsSync(to.path)
  if (isKept) setRightsOf(to)
  else writeFile(to, text)
  // A killed run may have left the copied file in its old place. A file that differs stays.
  if (isMove && (!isKept || readFileSync(to.path, 'utf8') === text)) await mustRun({ words: ['rm', '--', from], as })
}

/** @returns the path of the copy */
export function backUp(file: string): string {
  const kept = `${file}.${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}`
  copyFileSync(file, kept)
  return kept
}

function hasRights({ path, mode, owner, group }: Place): boolean {
  const { stdout } = spawnSync('stat', ['--format=%U:%G %a', path], { encoding: 'utf8' })
  return stdout.trim() === `${owner}:${group} ${mode.toString(8)}`
}

/** Rights are set by the descriptor: in a folder of another user the name may lead elsewhere a moment later. */
function setRights(fd: number, { owner, group, mode }: Place): void {
  fchownSync(fd, idOf('passwd', owner), idOf('group', group))
  fchmodSync(fd, mode)
}

const setRightsOf = (at: Place, more = 0) =>
  withFile(at.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | more, (fd) => setRights(fd, at))

/** A new file is closed to others until it has its rights. */
function withFile(file: string, flags: number | 'wx', work: (fd: number) => void): void {
  const fd = openSync(file, flags, CLOSED)
  try {
    work(fd)
  } finally {
    closeSync(fd)
  }
}

function idOf(database: 'passwd' | 'group', name: string): number {
  const { stdout } = spawnSync('getent', [database, name], { encoding: 'utf8' })
  const id = Number(stdout.split(':')[2])
  if (stdout === '' || !Number.isInteger(id)) throw new Error(`there is no ${name} in ${database}`)
  return id
}

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

/** Looks at this host and changes nothing. */
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
