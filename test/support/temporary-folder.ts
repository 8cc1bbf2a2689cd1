import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'

/** A new folder, which goes with the suite or the file in which this is called. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-test-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
