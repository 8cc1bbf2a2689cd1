/** A way to PostgreSQL that can fall silent: from then on nothing passes on its connections, and neither end is told. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import type { DatabaseSettings } from '../../../src/store/database.ts'

export interface SilentNetwork {
  /** Where PostgreSQL is to be found by this way. */
  address: { hosts: string[]; port: number }
  /** For the connections that there are; later ones pass, or are accepted and silent, too. */
  silence(options?: { isForGood: boolean }): void
  close(): Promise<void>
}

/** @param folder for a Unix socket under the port of PostgreSQL, beside other hosts in a list; a port of loopback without */
export async function openSilentNetwork(
  to: Pick<DatabaseSettings, 'hosts' | 'port'>,
  folder?: string,
): Promise<SilentNetwork> {
  const [host = ''] = to.hosts
  const { port } = to
  const passing = new Set<Socket>()
  const silent = new Set<Socket>()
  let isForGood = false
  const server = createServer((near) => {
    if (isForGood) return void silent.add(near)
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
  })
  if (folder === undefined) server.listen(0, '127.0.0.1')
  else server.listen(path.join(folder, `.s.PGSQL.${port}`))
  await once(server, 'listening')
  return {
    address: folder === undefined ? { hosts: ['127.0.0.1'], port: portOf(server) } : { hosts: [folder], port },
    silence(options) {
      isForGood = options?.isForGood === true
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

const portOf = (server: Server): number => (server.address() as AddressInfo).port
