/** The tokens of `chancery --server URL login`, one for each service, readable by their owner alone. */

import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { describeFileError } from '../../shared/lib/file-error.ts'
import { CommandError } from '../values.ts'

type Tokens = Readonly<Record<string, string>>

function fileName(): string {
  const base = process.env['XDG_CONFIG_HOME']
  return path.join(base && path.isAbsolute(base) ? base : path.join(homedir(), '.config'), 'chancery', 'tokens.json')
}

/** `CHANCERY_TOKEN`, for machines with an API token, comes first. */
export function tokenFor(baseUrl: string): string | undefined {
  return process.env['CHANCERY_TOKEN'] || readTokens()[baseUrl]
}

/** @param token undefined forgets the one that is there */
export function keepToken(baseUrl: string, token: string | undefined): void {
  const { [baseUrl]: _, ...others } = readTokens()
  const file = fileName()
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const next = `${file}.${randomUUID()}`
  const kept = { ...others, ...(token !== undefined && { [baseUrl]: token }) }
  // `wx` follows no link that somebody has laid there.
  writeFileSync(next, JSON.stringify(kept), { mode: 0o600, flag: 'wx' })
  renameSync(next, file)
}

/** @throws CommandError when others may read or replace it, or it is not ours */
function readTokens(): Tokens {
  const file = fileName()
  const text = readOwn(file)
  if (text === undefined) return {}
  try {
    return JSON.parse(text) as Tokens
  } catch {
    throw new CommandError(`${file} is no JSON; delete it, and log in again`)
  }
}

/** Checks the open file: another file may have its name by the time it is read. */
function readOwn(file: string): string | undefined {
  const opened = open(file)
  if (opened === undefined) return undefined
  try {
    const { mode, uid } = fstatSync(opened)
    const folder = statSync(path.dirname(file))
    const us = process.getuid?.()
    if (us !== undefined && (uid !== us || (folder.uid !== us && folder.uid !== 0)))
      throw new CommandError(`${file} belongs to another user; delete it, and log in again`)
    if ((mode & 0o077) !== 0) throw new CommandError(`${file} can be read by others; chmod 600 it, and log in again`)
    if ((folder.mode & 0o022) !== 0)
      throw new CommandError(`${path.dirname(file)} can be written by others; chmod 700 it`)
    return readFileSync(opened, 'utf8')
  } finally {
    closeSync(opened)
  }
}

function open(file: string): number | undefined {
  try {
    return openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new CommandError(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
}
