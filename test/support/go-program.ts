/** Builds a program in Go from its folder and Debian's library packages alone: nothing is fetched. */

import path from 'node:path'
import { GO_LIBRARIES } from './requirements.ts'
import { mustRun } from './run-command.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')

/** @param folder of its source in the repository */
export async function buildGoProgram(folder: string, target: string): Promise<void> {
  const env = { GO111MODULE: 'off', GOPATH: GO_LIBRARIES, CGO_ENABLED: '0' }
  await mustRun('go', ['build', '-o', target, path.join(ROOT, folder, 'main.go')], { env, timeoutMs: 600_000 })
}
