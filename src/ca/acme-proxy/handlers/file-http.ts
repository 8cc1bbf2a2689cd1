/** Handler `file_http`: files in the folder of a web server that serves the names. */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ChallengeHandler } from './handler.ts'

/** Readable for the web server, which runs as another user. */
const FILE_MODE = 0o644
const TIMEOUT_MS = 10_000
const CONCURRENCY = 16

export function fileHttp({ webroot }: { webroot: string }): ChallengeHandler {
  const folder = path.resolve(webroot, '.well-known', 'acme-challenge')
  return {
    propagationMs: 0,
    timeoutMs: TIMEOUT_MS,
    concurrency: CONCURRENCY,
    async place({ token, keyAuthorization }) {
      await mkdir(folder, { recursive: true })
      const file = path.join(folder, token)
      // A reader finds the whole file or none.
      await writeFile(`${file}.new`, keyAuthorization, { mode: FILE_MODE })
      await rename(`${file}.new`, file)
    },
    async remove({ token }) {
      const file = path.join(folder, token)
      await Promise.all([rm(file, { force: true }), rm(`${file}.new`, { force: true })])
    },
    close: async () => undefined,
  }
}
