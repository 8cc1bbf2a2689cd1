/** The version of the program, from its package.json. */

import { readFileSync } from 'node:fs'

/** Searches upwards, because the compiled program is one folder deeper than its source. */
export function readVersion(): string {
  for (let folder = new URL('.', import.meta.url); ; folder = new URL('..', folder)) {
    const manifest = readManifest(new URL('package.json', folder))
    if (manifest?.name === 'chancery') return manifest.version
    if (folder.pathname === '/') throw new Error('package.json of chancery was not found')
  }
}

function readManifest(file: URL): { name: string; version: string } | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as { name: string; version: string }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
