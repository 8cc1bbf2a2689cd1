/** pgbouncer in front of the database of a stand, with sessions that it shares. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { freePort } from '../support/free-port.ts'
import { until } from '../support/until.ts'
import type { Stand } from './stand.ts'

export async function startPooler({ folder, postgres, serverPort, later }: Stand): Promise<{ port: number }> {
  const port = await freePort()
  const [file, users] = [path.join(folder, 'pgbouncer.ini'), path.join(folder, 'users.txt')]
  writeFileSync(users, '"chancery" ""\n')
  const lines = [
    '[databases]',
    `chancery = host=127.0.0.1 port=${serverPort}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = trust',
    `auth_file = ${users}`,
    'pool_mode = transaction',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  // It refuses to run as root: it gets the user of the server.
  const { uid, gid } = statSync(path.join(postgres.folder, 'cluster'))
  for (const one of [users, file]) chownSync(one, uid, gid)
  const pooler = spawn('pgbouncer', ['-q', file], { stdio: 'ignore', uid, gid })
  later(async () => {
    const ended = once(pooler, 'exit')
    pooler.kill('SIGKILL')
    await ended
  })
  await until('pgbouncer listens', () => listens(port))
  return { port }
}

function listens(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(undefined))
  })
}
