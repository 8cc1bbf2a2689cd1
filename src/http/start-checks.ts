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

/** Connections of the database, validations, files and sockets between threads. */
const OTHER_FILES = 512

/**
 * Warns when the process may open fewer files than it takes connections. Further connections wait in the system's queue.
 * @param limits as in /proc/self/limits
 */
export function fileLimitWarning(connections: number, limits: string): string | undefined {
  const limit = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
  if (limit >= connections + OTHER_FILES) return undefined
  return `the process may open ${limit} files, and server.overload.max_connections alone is ${connections}: raise LimitNOFILE in the unit (ulimit -n), or lower that key`
}

/**
 * SHA-256 of the uWebSockets.js binaries that may be loaded, by file name. They are from npm's `uwebsockets` 3.0.6,
 * for Linux and supported versions of Node.js (SECURITY.md, the HTTP server's binary).
 */
export const LIBRARY_HASHES: Readonly<Record<string, string>> = {
  'uws_linux_x64_115.node': 'f4fa5d7b697529b45ac8aa3d57385d9af51bc1d2b26aa9f5b68ca4361542e665',
  'uws_linux_x64_127.node': '78e38a9a163b1cf33ce539619e5908111dea95a12e7943d95fbcdd524879caa8',
  'uws_linux_x64_137.node': '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449',
  'uws_linux_x64_141.node': 'd22bae7642b872152cd0eeb682c6c2ffd186e91af8cf18cdf98be984a6549d49',
  'uws_linux_arm64_115.node': '034e0fcccdc08f90df3b130f421516311831b1352fe38eab91abc2984c2fdf3a',
  'uws_linux_arm64_127.node': 'a7d9bc3ec166421a49416d5ea4f49118ae68ea1dbf8a765c4f45a79b0b6adb13',
  'uws_linux_arm64_137.node': 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4',
  'uws_linux_arm64_141.node': '1317f2e69ea1924ee8dd94ed02a3e6beb08e55d8b06f18caeda3d67a02857aee',
}
