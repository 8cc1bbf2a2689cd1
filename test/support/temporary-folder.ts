import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const folders: string[] = []
process.once('exit', () => {
  // A process that has just ended may still be writing.
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** A new folder, which goes with the process: a service or a database in it has ended before, in whatever order. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-test-'))
  folders.push(folder)
  return folder
}
