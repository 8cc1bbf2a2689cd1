/** Builds a program in Go from its folder and Debian's library packages alone: nothing is fetched. */

import path from 'node:path'
import { GO_LIBRARIES } from '../requirements.ts'
import { mustRun } from '../run-command.ts'
import { contentOf, debianState, made } from './made.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')

/**
 * @param folder of its source in the repository
 * @returns the program
 */
export async function goProgram(folder: string): Promise<string> {
  const env = { GO111MODULE: 'off', GOPATH: GO_LIBRARIES, CGO_ENABLED: '0' }
  const source = path.join(folder, 'main.go')
  const inputs = { source: contentOf(source), go: await mustRun('go', ['version']), libraries: debianState(), env }
  const place = await made(path.basename(folder), inputs, (at) =>
    mustRun('go', ['build', '-o', path.join(at, 'program'), path.join(ROOT, source)], { env }),
  )
  return path.join(place, 'program')
}
