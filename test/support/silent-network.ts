/** A way to PostgreSQL that can fall silent: from then on nothing passes on its connections, and neither end is told. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import type { DatabaseSettings } from '../../src/store/database.ts'

export interface SilentNetwork {
  /** Where PostgreSQL is to be found by this way. */
  address: { hosts: string[]; port: number }
  /** For the connections that there are; later ones pass. */
  silence(): void
  close(): Promise<void>
}

export async function openSilentNetwork(to: Pick<DatabaseSettings, 'hosts' | 'port'>): Promise<SilentNetwork> {
  const [host = ''] = to.hosts
  const { port } = to
  const passing = new Set<Socket>()
  const silent = new Set<Socket>()
  const server = createServer((near) => {
    const far = host.startsWith('/') ? connect(path.join(host, `.s.PGSQL.${port}`)) : connect(port, host)
    for (const [from, other] of [
      [near, far],
      [far, near],
    ] as const) {
      passing.add(from)
      from.on('data', (bytes) => passing.has(from) && other.write(bytes))
      from.on('close', () => passing.delete(from) && other.destroy())
      from.on('error', () => undefined)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: { hosts: ['127.0.0.1'], port: (server.address() as AddressInfo).port },
    silence() {
      for (const socket of passing) silent.add(socket)
      passing.clear()
    },
    async close() {
      for (const socket of [...passing, ...silent]) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
