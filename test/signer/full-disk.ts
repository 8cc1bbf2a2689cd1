/** Calls of `node:fs` that fail, for the files of the signer. */

import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { TestContext } from 'node:test'

export const noRoom = (): Error => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })

/** Has a function of `fs` be another one while the work runs. */
export async function withFs(
  context: TestContext,
  name: 'write' | 'openSync' | 'closeSync' | 'mkdirSync' | 'writeFileSync',
  stand: (...parts: never[]) => unknown,
  work: () => Promise<void>,
): Promise<void> {
  context.mock.method(fs, name, stand as never)
  syncBuiltinESMExports()
  try {
    await work()
  } finally {
    context.mock.restoreAll()
    syncBuiltinESMExports()
  }
}

/** `fs.write` of a disk with room for so many octets of the first call. */
export function filling(octets: number) {
  type Write = (fd: number, bytes: Buffer, done: (error: Error | null, written: number) => void) => void
  const real = fs.write as unknown as Write
  let calls = 0
  const full: Write = (fd, bytes, done) => {
    calls += 1
    if (calls === 1 && octets > 0) real(fd, bytes.subarray(0, octets), done)
    else done(noRoom(), 0)
  }
  return full
}
