/** The release before this one, compiled beside it: what an upgrade begins with. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { buildCommit, commitOf, removeCheckout } from '../../bench/servers/build.ts'
import { noted } from './used-parts.ts'

/** Until there is a released one. Its files are also those of `test/fixtures/signer-protocol.json`. */
const PREVIOUS = '5e5b443b'

export interface Release {
  /** Holds `dist` and `node_modules`. */
  root: string
  /** The program of the signer. */
  signer: string
  remove(): Promise<void>
}

/** Takes a minute. @throws Error where the commit is not in this clone */
export async function buildPreviousRelease(): Promise<Release> {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-previous-'))
  const root = path.join(folder, 'checkout')
  const { signal } = new AbortController()
  const commit = await commitOf(PREVIOUS, signal)
  const build = () => buildCommit({ ref: PREVIOUS, commit, root }, () => undefined, signal)
  await noted('earlier release', build)
  return {
    root,
    signer: path.join(root, 'dist/signer/start.cjs'),
    async remove() {
      await removeCheckout(root)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
