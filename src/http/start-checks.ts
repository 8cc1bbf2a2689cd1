/**
 * Checks before the service creates or starts anything: uWebSockets.js is the one that was released
 * with Chancery and runs here, and its port is free.
 */

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import { LIBRARY_HASHES } from './library-hashes.ts'

const LIBRARY = createRequire(import.meta.url).resolve('uWebSockets.js')

/**
 * Its binaries fit only some versions of Node.js and the C library; npm installs them anyway.
 * Loads the library in a thread of its own, because it binds to the event loop of its loader.
 *
 * @param trusted SHA-256 in hex of another binary that the operator trusts (`CHANCERY_UWS_SHA256`)
 * @throws Error when none of its binaries fits, or its bytes are others than expected
 */
export async function requireUws(library = LIBRARY, trusted = process.env['CHANCERY_UWS_SHA256']): Promise<void> {
  await requireKnownBinary(path.dirname(library), trusted)
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

/** The binary has TLS keys and passwords in its process, so its bytes are compared before it runs. */
async function requireKnownBinary(folder: string, trusted: string | undefined): Promise<void> {
  const name = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
  let bytes: Buffer
  try {
    bytes = await readFile(path.join(folder, name))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return // the attempt to load it says so
    throw error
  }
  const hash = createHash('sha256').update(bytes).digest('hex')
  if (hash === trusted?.toLowerCase() || hash === LIBRARY_HASHES[name]) return
  throw new Error(
    `${name} of uWebSockets.js, the HTTP server, is not the file that this release was tested with (its SHA-256 is ${hash}); SECURITY.md says how to trust another`,
  )
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
