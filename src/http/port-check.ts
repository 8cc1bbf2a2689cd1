/**
 * Whether an address is free, asked before the front threads share it.
 *
 * Front threads listen with SO_REUSEPORT, which also admits another running instance of the same user: both would get
 * half of the connections and nobody an error. A plain listener is refused as long as anybody listens there.
 */
import { createServer } from 'node:net'

/** @throws the system's error (`code` EADDRINUSE, EACCES, EADDRNOTAVAIL, …) when a server could not listen there. */
export function assertPortFree(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()))
  })
}
