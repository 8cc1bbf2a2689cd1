/** The files of the project and what they import, for tests that hold a rule of the whole house. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../../..')
export const TREES = ['src', 'signer', 'workers', 'bench', 'deploy']

export interface Import {
  /** The importing file, from the root. */
  file: string
  specifier: string
}

/** Static and dynamic imports, re-exports, and the package that is only looked up on disk. */
const IMPORT = /(?:\bfrom |\bimport |\bimport\()'([^']+)'|\.resolve\('([a-z@][^']*)'\)/g

export const textOf = (file: string) => readFileSync(path.join(ROOT, file), 'utf8')

export function importsBelow(tree: string): Import[] {
  return filesBelow(tree).flatMap((file) => {
    const text = withoutComments(textOf(file))
    return [...text.matchAll(IMPORT)].map(([, imported, resolved]) => ({ file, specifier: imported ?? resolved ?? '' }))
  })
}

/** @returns paths from the root */
export function filesBelow(tree: string): string[] {
  if (!existsSync(path.join(ROOT, tree))) return []
  const names = readdirSync(path.join(ROOT, tree), { recursive: true, encoding: 'utf8' })
  return names.filter((name) => /\.(tsx?|mjs)$/.test(name)).map((name) => path.posix.join(tree, name))
}

/** A comment that quotes an import would count as one. This is good enough to prevent it. */
export function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
}

export const isRelative = ({ specifier }: Import) => specifier.startsWith('.')
export const isForeign = ({ specifier }: Import) => !specifier.startsWith('.') && !specifier.startsWith('node:')
export const targetOf = ({ file, specifier }: Import) => path.posix.join(path.posix.dirname(file), specifier)
export const packageOf = ({ specifier }: Import) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
export const isIn = (file: string, place: string) => file === place || file.startsWith(`${place}/`)
