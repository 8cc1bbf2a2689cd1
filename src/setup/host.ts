/** The effects of a set-up on this host: files, folders, users. Programs are run by `command.ts`. */

import { spawnSync } from 'node:child_process'
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
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { mustRun, run } from './command.ts'
import { PLACES, SIGNER } from './facts.ts'
import type { FileWork, RunWork, Work } from './step.ts'

const RANDOM_BYTES = 32

/** @returns true where nothing is left to do; false also where that is not known before */
export async function isDone(work: Work): Promise<boolean> {
  switch (work.kind) {
    case 'file':
      return hasRights(work.path, work) && readFileSync(work.path, 'utf8') === work.text
    case 'folder':
      return (work.mayBeOther && isOpen(work.path)) || hasRights(work.path, work)
    case 'random':
      return hasRights(work.path, work)
    case 'copy':
      return hasRights(work.to, work) && !(work.isMove && existsSync(work.from))
    case 'user':
      return spawnSync('id', [work.name], { stdio: 'ignore' }).status === 0
    case 'run':
      return isRunDone(work)
    default:
      return false
  }
}

/** Whether others than root may enter. A folder that setup made under a strict umask may be closed. */
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

/** Does what is plain; the rest is `apply.ts`'s. */
export async function act(
  work: Exclude<Work, { kind: 'restart' | 'wait' | 'administrator' | 'credential' | 'test-certificate' | 'last-look' }>,
) {
  switch (work.kind) {
    case 'file':
      return writeFile(work)
    case 'folder':
      mkdirSync(work.path, { recursive: true, mode: 0o700 })
      return setRightsOf(work.path, work, constants.O_DIRECTORY)
    case 'random':
      if (existsSync(work.path)) return setRightsOf(work.path, work)
      return writeFile({ ...work, text: `${randomBytes(RANDOM_BYTES).toString('hex')}\n` })
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
export function writeFile(work: Pick<FileWork, 'path' | 'text' | 'mode' | 'owner' | 'group'>): void {
  mkdirSync(path.dirname(work.path), { recursive: true })
  const half = `${work.path}.new`
  rmSync(half, { force: true })
  withFile(half, 'wx', (fd) => {
    writeFileSync(fd, work.text)
    fsyncSync(fd)
    setRights(fd, work)
  })
  renameSync(half, work.path)
}

/** In the signer's folder as the signer: a link that its user has put there leads to nothing that only root may read. */
async function copy({ from, isMove, ...work }: Extract<Work, { kind: 'copy' }>): Promise<void> {
  const as = from.startsWith(`${PLACES.signerState}/`) ? SIGNER : 'root'
  const text = await mustRun({ words: ['timeout', '10', 'cat', '--', from], as })
  const isKept = existsSync(work.to)
  if (isKept) setRightsOf(work.to, work)
  else writeFile({ ...work, path: work.to, text })
  // A killed run may have left the copied file in its old place. A file that differs stays.
  if (isMove && (!isKept || readFileSync(work.to, 'utf8') === text)) await mustRun({ words: ['rm', '--', from], as })
}

/** @returns where the file of before is kept */
export function backUp(file: string): string {
  const kept = `${file}.${new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}`
  copyFileSync(file, kept)
  return kept
}

type Owned = { mode: number; owner: string; group?: string | undefined }
const ownersOf = ({ owner, group = 'root' }: Owned) => `${owner}:${group}`

function hasRights(file: string, rights: Owned): boolean {
  const { stdout } = spawnSync('stat', ['--format=%U:%G %a', file], { encoding: 'utf8' })
  return stdout.trim() === `${ownersOf(rights)} ${rights.mode.toString(8)}`
}

/** By its descriptor: in a folder of another user the name may lead elsewhere a moment later. */
function setRights(fd: number, { owner, group = 'root', mode }: Owned): void {
  fchownSync(fd, idOf('passwd', owner), idOf('group', group))
  fchmodSync(fd, mode)
}

const setRightsOf = (file: string, rights: Owned, more = 0) =>
  withFile(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | more, (fd) => setRights(fd, rights))

/** A new file is closed to others until it has its rights. */
function withFile(file: string, flags: number | 'wx', work: (fd: number) => void): void {
  const fd = openSync(file, flags, 0o600)
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
