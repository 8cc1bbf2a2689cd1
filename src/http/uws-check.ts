/**
 * Checks that uWebSockets.js runs here, before the service creates or starts anything.
 *
 * Its binaries fit only some versions of Node.js and the C library; npm installs them anyway.
 */

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'

const LIBRARY = createRequire(import.meta.url).resolve('uWebSockets.js')

/**
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
