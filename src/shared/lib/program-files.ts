/** Where the files of this installation are: those that the build makes, and those that it takes as they are. */

import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

/** The folder with `package.json`. */
export const INSTALLATION = installationOf(import.meta.dirname)

function installationOf(folder: string): string {
  const manifest = path.join(folder, 'package.json')
  if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).name === 'chancery') return folder
  if (folder === '/') throw new Error('package.json of chancery was not found')
  return installationOf(path.dirname(folder))
}

/** The version in `package.json`. */
export const VERSION: string = JSON.parse(readFileSync(path.join(INSTALLATION, 'package.json'), 'utf8')).version

/**
 * The compiled form of a source that a process or thread starts from, such as `workers/crl.ts`.
 *
 * The build makes one for each source that a call of this function names.
 */
export function programFile(source: string): URL {
  return pathToFileURL(path.join(INSTALLATION, 'dist', source.replace(/\.(c?)ts$/, '.$1js')))
}
