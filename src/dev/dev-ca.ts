/**
 * The development CA: a root and an intermediate, created at the first start so that a fresh clone can issue.
 *
 * Not for production: its keys are unencrypted and in one folder. Only signing or replacing the intermediate needs the
 * root's key, which may be moved away afterwards. The certificate code is loaded on demand, because that takes longer
 * than the rest of a start.
 */

import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import type { DevCaFiles } from './dev-ca-certificates.ts'

/**
 * Creates the missing files in `folder` and keeps existing ones. So a restart keeps the CA, and
 * completes an interrupted start.
 *
 * @returns `isNew` when the root was created now
 * @throws Error when both the intermediate and the root key for it are missing
 */
export async function ensureDevCa(folder: string, now: Date): Promise<{ files: DevCaFiles; isNew: boolean }> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = (name: string) => path.join(folder, name)
  const files: DevCaFiles = {
    root: file('root.pem'),
    rootKey: file('root-key.pem'),
    intermediate: file('intermediate.pem'),
    intermediateKey: file('intermediate-key.pem'),
  }
  const isNew = !existsSync(files.root)
  if (isNew || !existsSync(files.intermediate)) {
    const { makeIntermediate, makeRoot } = await import('./dev-ca-certificates.ts')
    if (isNew) await makeRoot(files, now)
    if (!existsSync(files.intermediate)) await makeIntermediate(files, now)
  }
  return { files, isNew }
}
