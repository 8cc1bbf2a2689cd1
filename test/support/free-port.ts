/**
 * A port for a service that has to know its URL before it listens.
 *
 * A port that the kernel has given, and got back, may be another test file's a moment later. Front threads even share a
 * port without a word. So ports come from below the kernel's own range, and each is held by a file that
 * names the process that took it.
 */

import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

const FIRST = 20_000
/** The kernel hands out 32768 and above. */
const LAST = 31_999
const FOLDER = path.join(tmpdir(), 'chancery-test-ports')

const held: string[] = []
process.on('exit', () => {
  for (const file of held) rmSync(file, { force: true })
})

export async function freePort(): Promise<number> {
  mkdirSync(FOLDER, { recursive: true, mode: 0o777 })
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST + 1))
    if (take(port) && (await isFree(port))) return port
  }
}

function take(port: number): boolean {
  const file = path.join(FOLDER, String(port))
  try {
    const descriptor = openSync(file, 'wx')
    writeSync(descriptor, String(process.pid))
    closeSync(descriptor)
    held.push(file)
    return true
  } catch {
    // The port is taken. A file whose process is gone is removed, for the next who draws the number.
    if (!isAlive(file)) rmSync(file, { force: true })
    return false
  }
}

function isAlive(file: string): boolean {
  try {
    const pid = Number(readFileSync(file, 'utf8'))
    // A file that was made this instant is still empty.
    return pid === 0 || process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
