/** The test files that a change concerns: those that import what git says is changed, the nearest first. */

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** Compiled files, in the folders of the sources. */
const TREE = path.resolve(import.meta.dirname, '../../..')
const ROOT = path.resolve(TREE, '..')
const FOLDERS = ['src', 'signer', 'workers', 'bench', 'deploy', 'test']
const IMPORT = /\b(?:from|import|new URL)\s*\(?\s*['"](\.[^'"]+)['"]/g

/** Compiled file → those that import it. */
export type Importers = Map<string, string[]>

function git(...words: string[]): string[] {
  return execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).split('\n').filter(Boolean)
}

/** @returns paths from the root, of what differs from the branch's base with this commit, or is in no commit */
export function changedSince(commit: string): string[] {
  const [base = commit] = git('merge-base', commit, 'HEAD')
  return [...git('diff', '--name-only', base), ...git('ls-files', '--others', '--exclude-standard')]
}

const compiled = (source: string) => path.join(TREE, source.replace(/\.(c?)tsx?$/, '.$1js'))

export function readImporters(): Importers {
  const importers: Importers = new Map()
  for (const folder of FOLDERS) {
    const top = path.join(TREE, folder)
    const names = existsSync(top) ? readdirSync(top, { recursive: true, encoding: 'utf8' }) : []
    for (const file of names.filter((name) => /\.c?js$/.test(name)).map((name) => path.join(top, name)))
      for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(IMPORT)) {
        const target = path.resolve(path.dirname(file), specifier)
        importers.set(target, [...(importers.get(target) ?? []), file])
      }
  }
  return importers
}

/** Compiled test file → over how many imports it comes to one of the changed files; 0 for one of them. */
export function concerned(changed: readonly string[], importers: Importers): Map<string, number> {
  const distances = new Map(changed.map((file) => [file, 0]))
  // A map is iterated in the order of insertion, including what is added meanwhile: the nearest come first.
  for (const [file, distance] of distances)
    for (const importer of importers.get(file) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1)
  return new Map([...distances].filter(([file]) => file.endsWith('.test.js')))
}

export interface Candidate {
  file: string
  distance: number
  isUnit: boolean
  /** That it takes, by the ledger. */
  seconds: number
}

/** Units first and the nearest of the others, as many as the time allows; what is changed itself always. */
export function withinTime(candidates: readonly Candidate[], mostSeconds: number): string[] {
  const order = [...candidates].sort(
    (a, b) =>
      Number(a.distance > 0) - Number(b.distance > 0) || Number(b.isUnit) - Number(a.isUnit) || a.distance - b.distance,
  )
  let seconds = 0
  return order.flatMap((one) => {
    if (one.distance > 0 && seconds + one.seconds > mostSeconds) return []
    seconds += one.seconds
    return [one.file]
  })
}

export function concernedSince(commit: string): { changed: string[]; distances: Map<string, number> } {
  const changed = changedSince(commit)
  const distances = concerned(
    changed.map(compiled).filter((file) => FOLDERS.includes(path.relative(TREE, file).split(path.sep)[0]!)),
    readImporters(),
  )
  return { changed, distances }
}
