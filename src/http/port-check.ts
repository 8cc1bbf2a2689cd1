/**
 * Checks that an address is free before the front threads share it.
 *
 * Front threads listen with SO_REUSEPORT, which also admits another instance of the same user.
 * Without an error, both would get half of the connections; a plain listener is refused instead.
 */
import { createServer } from 'node:net'

/** @throws the system's error (`code` EADDRINUSE, EACCES, EADDRNOTAVAIL, …) */
export function assertPortFree(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()))
  })
}
