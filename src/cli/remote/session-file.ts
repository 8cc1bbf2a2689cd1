/** The tokens of `chancery --server URL login`, one for each service, readable by their owner alone. */

import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
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
  const next = `${file}.${process.pid}`
  writeFileSync(next, JSON.stringify({ ...others, ...(token !== undefined && { [baseUrl]: token }) }), { mode: 0o600 })
  renameSync(next, file)
}

/** @throws CommandError when others may read it, or it is not ours */
function readTokens(): Tokens {
  const file = fileName()
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found) return {}
  if ((found.mode & 0o077) !== 0)
    throw new CommandError(`${file} can be read by others; chmod 600 it, and log in again`)
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Tokens
  } catch {
    throw new CommandError(`${file} is no JSON; delete it, and log in again`)
  }
}
