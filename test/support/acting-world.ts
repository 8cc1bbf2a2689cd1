/** The world that acts of all kinds need: two administrators, and clients whose challenges are answered. */

import { Caller } from '../../bench/faults/acts/caller.ts'
import { World } from '../../bench/faults/acts/world.ts'
import { startResponder } from '../../bench/responder/responders.ts'
import { createAdministrator } from './admin.ts'
import { WAIT_MS } from './patience.ts'
import type { TestService } from './service.ts'

export interface ActingWorld {
  world: World
  close(): Promise<void>
}

export async function startActingWorld(service: TestService, consoleOrigin: string): Promise<ActingWorld> {
  const { baseUrl, directoryUrl, http01Port, database } = service
  const proofs = new Map<string, string>()
  const ports = { http01Port, dnsPort: 0, tlsAlpn01Port: 0 }
  const responder = await startResponder('http-01', { host: '127.0.0.1', ...ports }, proofs)
  const caller = async (username: string) =>
    new Caller({ baseUrl, username, password: await createAdministrator(database, username) })
  const [admin, second] = [await caller('alice'), await caller('olga')]
  const requests = { directoryUrl, timeoutMs: 20 * WAIT_MS }
  const world = new World({ consoleOrigin, admin, second, proofs, requests })
  return { world, close: async () => responder?.close() }
}
