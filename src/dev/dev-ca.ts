/**
 * The development CA: a root and an intermediate, made once on the first start, so that a fresh clone can issue.
 *
 * Not for production: its keys lie unencrypted beside each other. The root's key is needed once, to sign the intermediate
 * (and again only to replace it); it can be moved away after the first start, and nothing here misses it.
 *
 * What makes certificates is loaded when one has to be made: that takes longer than the rest of a start.
 */

import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import type { DevCaFiles } from './dev-ca-certificates.ts'

/**
 * Makes in `folder` what is not there yet and leaves alone what is: a restart keeps the CA, and a start that was
 * interrupted is completed.
 *
 * @returns `isNew` when the root was made now
 * @throws Error when the intermediate is missing and the root key to make it with is, too
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
