/** `chancery --server URL …`: the service that is administered from here, and the session of its user. */

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
import { createInterface } from 'node:readline/promises'
import { describeFileError } from '../../shared/lib/errors.ts'
import { AdminCaller } from '../admin/admin-caller.ts'
import { passwordText } from '../admin/reply-texts.ts'
import { tell } from '../printing.ts'
import { CommandError } from '../values.ts'

interface Service {
  /** The URL of the Admin API. */
  server: string | undefined
  'base-path': string
  'approval-reason': string | undefined
  json: boolean
}

export function callerOf({ server, 'base-path': basePath, 'approval-reason': approvalReason }: Service): AdminCaller {
  const baseUrl = `${server}${basePath.replace(/\/$/, '')}`
  return new AdminCaller({
    baseUrl,
    fetch,
    token: () => tokenFor(baseUrl),
    approvalReason,
    advice: 'log in with: chancery --server URL login',
    explain({ cause, message }) {
      const { message: why, code } = (cause ?? {}) as { message?: string; code?: string }
      return new CommandError(`${baseUrl} cannot be reached: ${why || code || message}`)
    },
  })
}

const LOOPBACK = /^(?:127\.|\[::1\]|localhost$)/

export async function logIn(options: Service, username = ''): Promise<number> {
  const caller = callerOf(options)
  const { protocol, hostname } = new URL(caller.baseUrl)
  if (protocol === 'http:' && !LOOPBACK.test(hostname))
    console.error('chancery: warning: without https others can read the password and the token')
  const name = username === '' ? await askUsername() : username
  const body = { username: name, password: await askPassword('password') }
  const login = await caller.call('login', { body })
  if (!('token' in login))
    throw new CommandError(
      'this user signs in with a passkey: make an API token in the console, and set CHANCERY_TOKEN',
    )
  const { token, user } = login
  keepToken(caller.baseUrl, token)
  console.log(options.json ? JSON.stringify(user) : `logged in as ${user.username} (${user.role})`)
  return 0
}

/** The token is forgotten here even when the service no longer knows it. */
export async function logOut(options: Service): Promise<number> {
  const caller = callerOf(options)
  if (tokenFor(caller.baseUrl) === undefined) throw new CommandError(`there is no login at ${caller.baseUrl}`)
  try {
    await caller.call('logout', {})
  } finally {
    keepToken(caller.baseUrl, undefined)
  }
  console.log(options.json ? JSON.stringify({ status: 'logged_out' }) : 'logged out')
  return 0
}

export async function resetOwnPassword(caller: AdminCaller, json: boolean): Promise<number> {
  const current_password = await askPassword('current password')
  const reply = await caller.call('resetMyPassword', { body: { current_password } })
  tell(json, reply, passwordText(reply))
  console.error('The password is not shown again.')
  return 0
}

/** @throws CommandError without a terminal */
async function askUsername(): Promise<string> {
  if (!process.stdin.isTTY) throw new CommandError('--username is needed where standard input is no terminal')
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return (await lines.question('username: ')).trim()
  } finally {
    lines.close()
  }
}

/**
 * Reads a password from a terminal without showing it, else from the first line of standard input.
 * As an option, other users could read it in the list of processes.
 */
function askPassword(what: string): Promise<string> {
  return process.stdin.isTTY ? typedPassword(what) : firstLine(what)
}

async function firstLine(what: string): Promise<string> {
  let text = ''
  for await (const piece of process.stdin) {
    text += piece
    if (text.includes('\n')) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line !== '') return line
  throw new CommandError(`the ${what} is read from standard input, which is empty`)
}

const ENTER = ['\r', '\n', '\u0004']
const INTERRUPT = '\u0003'
const BACKSPACE = ['\b', '\u007f']

function typedPassword(what: string): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(`${what}: `)
  stdin.setRawMode(true).setEncoding('utf8').resume()
  return new Promise((resolve, reject) => {
    let typed: string[] = []
    const end = (finish: () => void) => {
      stdin.off('data', read).setRawMode(false).pause()
      stderr.write('\n')
      finish()
    }
    function read(keys: string): void {
      const stop = [...keys].findIndex((key) => key === INTERRUPT || ENTER.includes(key))
      for (const key of stop === -1 ? keys : [...keys].slice(0, stop))
        typed = BACKSPACE.includes(key) ? typed.slice(0, -1) : [...typed, key]
      if (stop === -1) return
      end(() => (keys[stop] === INTERRUPT ? reject(new CommandError('interrupted')) : resolve(typed.join(''))))
    }
    stdin.on('data', read)
  })
}

/** The tokens that `login` keeps, one for each service, in a file that only their owner can read. */
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
