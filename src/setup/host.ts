/** The effects of a set-up on this host: files, folders, users. Programs are run by `command.ts`. */

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { mustRun, run } from './command.ts'
import type { FileWork, RunWork, Work } from './step.ts'

const RANDOM_BYTES = 32

/** @returns true where nothing is left to do; false also where that is not known before */
export async function isDone(work: Work): Promise<boolean> {
  switch (work.kind) {
    case 'file':
      return hasRights(work.path, work) && readFileSync(work.path, 'utf8') === work.text
    case 'folder':
    case 'random':
      return hasRights(work.path, work)
    case 'copy':
      return hasRights(work.to, work)
    case 'user':
      return spawnSync('id', [work.name], { stdio: 'ignore' }).status === 0
    case 'run':
      return isRunDone(work)
    default:
      return false
  }
}

async function isRunDone({ unless }: RunWork): Promise<boolean> {
  if (unless === undefined) return false
  if (typeof unless === 'string') return existsSync(unless)
  const { code, stdout } = await run(unless)
  return code === 0 && stdout.trim() !== ''
}

/** Does what is plain; the rest is `apply.ts`'s. */
export async function act(
  work: Exclude<Work, { kind: 'restart' | 'wait' | 'administrator' | 'credential' | 'test-certificate' }>,
) {
  switch (work.kind) {
    case 'file':
      return writeFile(work)
    case 'folder':
      mkdirSync(work.path, { recursive: true, mode: 0o700 })
      return setRights(work.path, work)
    case 'random':
      if (existsSync(work.path)) return setRights(work.path, work)
      return writeFile({ ...work, text: `${randomBytes(RANDOM_BYTES).toString('hex')}\n` })
    case 'copy':
      return existsSync(work.to) ? setRights(work.to, work) : copy(work)
    case 'user': {
      const groups = work.groups.length > 0 ? ['--groups', work.groups.join(',')] : []
      const words = [
        'useradd',
        '--system',
        '--home-dir',
        work.home,
        '--shell',
        '/usr/sbin/nologin',
        ...groups,
        work.name,
      ]
      await mustRun({ words, as: 'root' })
      return
    }
    case 'run':
      await mustRun(work.command)
  }
}

/** The file has its rights before it has its name. */
export function writeFile({
  path: file,
  text,
  ...rights
}: Pick<FileWork, 'path' | 'text' | 'mode' | 'owner' | 'group'>): void {
  mkdirSync(path.dirname(file), { recursive: true })
  const half = `${file}.new`
  rmSync(half, { force: true })
  writeFileSync(half, text, { mode: 0o600, flag: 'wx', flush: true })
  setRights(half, rights)
  renameSync(half, file)
}

function copy({ from, to, isMove, ...rights }: Extract<Work, { kind: 'copy' }>): void {
  const half = `${to}.part`
  rmSync(half, { force: true })
  writeFileSync(half, '', { mode: 0o600, flag: 'wx' })
  copyFileSync(from, half)
  setRights(half, rights)
  renameSync(half, to)
  if (isMove) rmSync(from)
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

function setRights(file: string, rights: Owned): void {
  const { status, stderr } = spawnSync('chown', [ownersOf(rights), file], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`the owner of ${file} cannot be set: ${stderr.trim()}`)
  chmodSync(file, rights.mode)
}
