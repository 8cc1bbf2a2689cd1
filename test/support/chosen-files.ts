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
const UNIT_RING = 'unit'
const INNER_RINGS: Record<string, readonly string[]> = {
  [UNIT_RING]: ['unit', 'corpus', 'house', '.'],
  store: ['store'],
}
const PROGRAMS_RING = 'whole programs'
export const RELEASE_RING = 'release'
const RINGS = [...Object.keys(INNER_RINGS), PROGRAMS_RING, RELEASE_RING]

/** They build packages and run them in their places. Each takes minutes, and a change seldom breaks one of them. */
const OF_RELEASE = new Set(
  [
    'bench/compare',
    'deploy/compose',
    'deploy/image',
    'deploy/kubernetes-pods',
    'deploy/node-24',
    'deploy/packages',
    'deploy/previous-release',
    'deploy/release',
  ].map((name) => path.join(TESTS, `${name}.test.js`)),
)

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
  if (OF_RELEASE.has(file)) return RELEASE_RING
  const [first = '', ...below] = path.relative(TESTS, file).split(path.sep)
  const folder = below.length === 0 ? '.' : first
  return Object.keys(INNER_RINGS).find((name) => INNER_RINGS[name]?.includes(folder)) ?? PROGRAMS_RING
}

export const isUnit = (file: string) => ringOf(file) === UNIT_RING

/** In the order in which they run, without those that have no file. */
export function ringsOf(files: readonly string[]): Ring[] {
  return RINGS.map((name) => ({ name, files: files.filter((file) => ringOf(file) === name) })).filter(
    (ring) => ring.files.length > 0,
  )
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

const SHARED_SERVICE = /\b(?:sharedService|acmeScene)\('([^']+)'\)/
/** At the top of a file: in a process with others it is for their tests, too. */
const HOOK_FOR_ALL = /^(?:before|after)Each\(/m

/** Files that run in one process, one after the other, so that they share a service, or what they import. */
export interface TestProcess {
  /** The path of a file that runs alone; for several files, an entry that has to be written. */
  entry: string
  files: string[]
}

/** Files of one name share a process, for so many seconds: several processes run at once. */
interface Company {
  name: string
  mostSeconds: number
}

/** A start costs more than a long process does; it begins first. */
const MOST_SECONDS_WITH_SERVICE = 120
const MOST_SECONDS: Record<string, number> = { unit: 10, store: 15 }
/** A file that the ledger does not know is such a part of a process. */
const UNKNOWN_SHARE = 1 / 16

function companyOf(file: string): Company | undefined {
  const text = readFileSync(file, 'utf8')
  const service = SHARED_SERVICE.exec(text)?.[1]
  if (service !== undefined) return { name: service, mostSeconds: MOST_SECONDS_WITH_SERVICE }
  const name = ringOf(file)
  const mostSeconds = MOST_SECONDS[name]
  return mostSeconds === undefined || HOOK_FOR_ALL.test(text) ? undefined : { name, mostSeconds }
}

/** Neighbours together, since they import the same modules, into parts of about the same time. */
export function inParts(files: readonly { file: string; seconds: number }[], mostSeconds: number): string[][] {
  const all = files.reduce((sum, { seconds }) => sum + seconds, 0)
  const parts = Array.from({ length: Math.max(1, Math.ceil(all / mostSeconds)) }, (): string[] => [])
  let before = 0
  for (const { file, seconds } of files) {
    const middle = before + seconds / 2
    parts[Math.floor((middle / all) * parts.length)]!.push(file)
    before += seconds
  }
  return parts.filter((part) => part.length > 0)
}

/** @param folder where the entries of several files will be. @param secondsOf a file, by the ledger */
export function processesOf(
  files: readonly string[],
  folder: string,
  secondsOf: (file: string) => number | undefined,
): TestProcess[] {
  const alone: TestProcess[] = []
  const companies = new Map<string, { mostSeconds: number; files: string[] }>()
  for (const file of files) {
    const company = companyOf(file)
    if (company === undefined) alone.push({ entry: file, files: [file] })
    else {
      const known = companies.get(company.name) ?? { mostSeconds: company.mostSeconds, files: [] }
      companies.set(company.name, known)
      known.files.push(file)
    }
  }
  const together = [...companies].flatMap(([name, { mostSeconds, files }]) => {
    const timed = files.map((file) => ({ file, seconds: secondsOf(file) ?? mostSeconds * UNKNOWN_SHARE }))
    return inParts(timed, mostSeconds).map((part, number) => {
      const entry = part.length === 1 ? part[0]! : path.join(folder, `${name}-${number + 1}.test.mjs`)
      return { entry, files: part }
    })
  })
  return [...together, ...alone]
}
