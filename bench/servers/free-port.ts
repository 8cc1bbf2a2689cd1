/**
 * A port for a server that must know its own before it listens.
 *
 * It is below the range that the kernel hands out, so that no outgoing connection takes it in between. A front that
 * shares its port among threads would not notice another listener there.
 */

import { createServer } from 'node:net'

const FIRST = 10_000
const LAST = 19_999

const given = new Set<number>()

/** @returns a port of 127.0.0.1 that was free a moment ago; never the same one twice. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1))
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
