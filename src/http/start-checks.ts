/** Checks before the service creates or starts anything: uWebSockets.js runs here, and its port is free. */

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { Worker } from 'node:worker_threads'

const LIBRARY = createRequire(import.meta.url).resolve('uWebSockets.js')

/**
 * Its binaries fit only some versions of Node.js and the C library; npm installs them anyway.
 * Loads the library in a thread of its own, because it binds to the event loop of its loader.
 *
 * @throws Error when none of its binaries fits
 */
export async function requireUws(library = LIBRARY): Promise<void> {
  const probe = new Worker(`require(${JSON.stringify(library)})`, { eval: true, env: {}, execArgv: [] })
  try {
    await once(probe, 'exit')
  } catch (error) {
    const lines = (error as Error).message.split('\n').filter((line) => line !== '')
    const reason = (lines[1] ?? lines[0] ?? '').replace(/^Error: /, '')
    throw new Error(
      `uWebSockets.js, the HTTP server, has no binary for ${platform()}; the table in README.md says which systems it runs on (${reason})`,
    )
  }
}

function platform(): string {
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } }
  const library = header.glibcVersionRuntime ? `glibc ${header.glibcVersionRuntime}` : 'a C library other than glibc'
  return `Node.js ${process.versions.node} with ${library} on ${process.platform}-${process.arch}`
}

/**
 * Front threads listen with SO_REUSEPORT, which also admits another instance of the same user.
 * Without an error, both would get half of the connections; a plain listener is refused instead.
 *
 * @throws the system's error (`code` EADDRINUSE, EACCES, EADDRNOTAVAIL, …)
 */
export function assertPortFree(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve()))
  })
}
