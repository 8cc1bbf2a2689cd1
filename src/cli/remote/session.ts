/** `chancery --server URL login` and `logout`; asks a person at a terminal, or reads standard input. */

import { createInterface } from 'node:readline/promises'
import { CommandError } from '../values.ts'
import { Connection, type RemoteOptions } from './connection.ts'
import { keepToken, tokenFor } from './session-file.ts'

const LOOPBACK = /^(?:127\.|\[::1\]|localhost$)/

export async function logIn(options: RemoteOptions, username = ''): Promise<number> {
  const connection = new Connection(options)
  const { protocol, hostname } = new URL(connection.baseUrl)
  if (protocol === 'http:' && !LOOPBACK.test(hostname))
    console.error('chancery: warning: without https the password and the token can be read on their way')
  const name = username === '' ? await askUsername() : username
  const { body } = await connection.page('login', { body: { username: name, password: await askPassword() } })
  const { token, user } = body as { token: string; user: { username: string; role: string } }
  keepToken(connection.baseUrl, token)
  console.log(options.json ? JSON.stringify(user) : `logged in as ${user.username} (${user.role})`)
  return 0
}

/** The token is forgotten here even when the service no longer knows it. */
export async function logOut(options: RemoteOptions): Promise<number> {
  const connection = new Connection(options)
  if (tokenFor(connection.baseUrl) === undefined) throw new CommandError(`there is no login at ${connection.baseUrl}`)
  try {
    await connection.page('logout', {})
  } finally {
    keepToken(connection.baseUrl, undefined)
  }
  console.log(options.json ? JSON.stringify({ status: 'logged_out' }) : 'logged out')
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

/** From a terminal without showing it; else the first line of standard input. */
function askPassword(): Promise<string> {
  return process.stdin.isTTY ? typedPassword() : firstLine()
}

async function firstLine(): Promise<string> {
  let text = ''
  for await (const piece of process.stdin) {
    text += piece
    if (text.includes('\n')) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line !== '') return line
  throw new CommandError('the password is read from standard input, which is empty')
}

const ENTER = ['\r', '\n', '\u0004']
const INTERRUPT = '\u0003'
const BACKSPACE = ['\b', '\u007f']

function typedPassword(): Promise<string> {
  const { stdin, stderr } = process
  stderr.write('password: ')
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
