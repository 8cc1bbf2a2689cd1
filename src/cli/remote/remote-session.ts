/** `chancery --server URL …`: the service that is administered from here, and the session of its user. */

import { createInterface } from 'node:readline/promises'
import { AdminCaller } from '../admin/admin-caller.ts'
import { passwordText } from '../admin/reply-texts.ts'
import { CommandError } from '../values.ts'
import { keepToken, tokenFor } from './session-file.ts'

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
  console.log(json ? JSON.stringify(reply, null, 2) : passwordText(reply))
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
