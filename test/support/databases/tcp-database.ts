/** A database at a TCP port of this machine, for those who cannot reach the folder of its Unix socket. */

import { connect, createServer, type Socket } from 'node:net'
import type { DatabaseConnection } from '../postgres.ts'

export interface TcpDatabase {
  connection: DatabaseConnection
  close(): void
}

/** @param at a port that is free; any when absent */
export async function overTcp({ host, port, ...rest }: DatabaseConnection, at = 0): Promise<TcpDatabase> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const there = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    for (const [one, other] of [
      [socket, there],
      [there, socket],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy()).on('close', () => sockets.delete(one))
    }
  })
  await new Promise<void>((resolve) => server.listen(at, '127.0.0.1', resolve))
  const { port: tcpPort } = server.address() as { port: number }
  return {
    connection: { ...rest, host: '127.0.0.1', port: tcpPort },
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
