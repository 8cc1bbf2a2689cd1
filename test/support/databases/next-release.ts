/** The migrations of this release, and one of each kind that a next release may have (test/fixtures/next-release). */

import { cpSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
const MIGRATIONS = path.join(ROOT, 'migrations')
const NEXT = path.join(ROOT, 'test/fixtures/next-release')

/** @returns a folder of its own, which the caller removes */
export function nextReleaseMigrations(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-migrations-'))
  for (const from of [MIGRATIONS, NEXT]) cpSync(from, folder, { recursive: true })
  return folder
}
