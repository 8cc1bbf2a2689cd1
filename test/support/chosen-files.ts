/** The files of a test run: chosen by words of their paths, put into rings, and asked for what they need. */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { DEBIAN_PACKAGES, type RequiredCommand } from './requirements.ts'

const TESTS = path.resolve(import.meta.dirname, '..')

export interface Ring {
  name: string
  files: string[]
}

/** The first is quick and says most. What is in none of these folders starts whole programs. */
const INNER_RINGS: Record<string, readonly string[]> = {
  unit: ['unit', 'corpus', '.'],
  store: ['store'],
}
const OUTERMOST_RING = 'whole programs'

/** @returns absolute paths of the compiled files */
export function chooseFiles(patterns: readonly string[]): string[] {
  const names = readdirSync(TESTS, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.test.js'))
  // Patterns are typed with the source's ending, taken from an editor or from a failure's stack.
  const wanted = patterns.map((pattern) => pattern.replace(/\.ts$/, '.js'))
  const matches = (name: string) => wanted.length === 0 || wanted.some((pattern) => `test/${name}`.includes(pattern))
  return names
    .filter(matches)
    .sort()
    .map((name) => path.join(TESTS, name))
}

function ringOf(file: string): string {
  const [first = '', ...below] = path.relative(TESTS, file).split(path.sep)
  const folder = below.length === 0 ? '.' : first
  return Object.keys(INNER_RINGS).find((name) => INNER_RINGS[name]?.includes(folder)) ?? OUTERMOST_RING
}

/** In the order in which they run, without those that have no file. */
export function ringsOf(files: readonly string[]): Ring[] {
  return [...Object.keys(INNER_RINGS), OUTERMOST_RING]
    .map((name) => ({ name, files: files.filter((file) => ringOf(file) === name) }))
    .filter((ring) => ring.files.length > 0)
}

/** The programs that these files ask for, read from their text so that a unit test never waits for certbot's installation. */
export function commandsNeededBy(files: readonly string[]): RequiredCommand[] {
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  const commands = Object.keys(DEBIAN_PACKAGES) as RequiredCommand[]
  return commands.filter((command) => text.includes(`requireCommand('${command}')`))
}

const RELATIVE_IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g

/** Whether one of the files imports this module of `test/support`, itself or through other files of `test`. */
export function importsSupport(files: readonly string[], module: string): boolean {
  const wanted = path.join(import.meta.dirname, `${module}.js`)
  const seen = new Set(files)
  // A set is iterated in the order of insertion, including what is added meanwhile.
  for (const file of seen) {
    if (file === wanted) return true
    for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(RELATIVE_IMPORT)) {
      const target = path.resolve(path.dirname(file), specifier)
      // A test may contain the text of a program, with imports of its own.
      if (target.startsWith(TESTS) && target.endsWith('.js') && existsSync(target)) seen.add(target)
    }
  }
  return false
}

const SHARED_SERVICE = /\bsharedService\('([^']+)'\)/

/** Files that run in one process, one after the other, so that they share a service. */
export interface TestProcess {
  /** Of a file alone, its own path; of several, an entry that has to be written. */
  entry: string
  files: string[]
}

/** Bounds how long one process takes, since several run at once. */
const MOST_FILES_TOGETHER = 6

/** @param folder where the entries of several files will be */
export function processesOf(files: readonly string[], folder: string): TestProcess[] {
  const alone: string[] = []
  const members = new Map<string, string[]>()
  for (const file of files) {
    const service = SHARED_SERVICE.exec(readFileSync(file, 'utf8'))?.[1]
    if (service === undefined) alone.push(file)
    else members.set(service, [...(members.get(service) ?? []), file])
  }
  const together = [...members].flatMap(([service, all]) => {
    const count = Math.ceil(all.length / MOST_FILES_TOGETHER)
    return Array.from({ length: count }, (_, number) => {
      const files = all.filter((_, index) => index % count === number)
      const [only = ''] = files
      return { entry: files.length === 1 ? only : path.join(folder, `${service}-${number + 1}.test.mjs`), files }
    })
  })
  // They take longest, so they begin first.
  return [...together, ...alone.map((file) => ({ entry: file, files: [file] }))]
}
