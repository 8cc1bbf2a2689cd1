/** `chancery --server URL login` and `logout`; asks a person at a terminal, or reads standard input. */

import { createInterface } from 'node:readline/promises'
import { askPassword } from '../ask-password.ts'
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
  const { body } = await connection.page('login', { body: { username: name, password: await askPassword('password') } })
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
