/**
 * Things that take long to make and depend on their inputs alone: roots of Debian, images, packages, programs of others.
 *
 * Each is made once, by the process that needs it first; the others wait for it. It stays in the user's cache for later runs, and a clone
 * in another folder finds it, too. `CHANCERY_TEST_CACHE` names another folder.
 */

import { spawn } from 'node:child_process'
import { createHash, type Hash } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import path from 'node:path'
import { noted } from './used-parts.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const CACHE =
  process.env['CHANCERY_TEST_CACHE'] ??
  path.join(process.env['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'chancery-test')

const HOUR_MS = 3_600_000
/** A process that uses one has begun since then. */
const IN_USE_MS = 2 * HOUR_MS
const KEPT_MS = 14 * 24 * HOUR_MS
const MOST_OF_A_NAME = 2
/** The last file that is written. It holds the inputs, for people. */
const WHOLE = 'made-of.json'

/**
 * @param inputs all that the result depends on, the program that makes it included; see `contentOf` and `debianState`
 * @param make fills the folder, which has another name until it is whole
 * @returns a folder that nobody may change
 */
export async function made(name: string, inputs: object, make: (folder: string) => unknown): Promise<string> {
  const text = JSON.stringify(inputs, null, 2)
  const folder = path.join(CACHE, `${name}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`)
  mkdirSync(CACHE, { recursive: true })
  const release = await lock(path.join(CACHE, `${name}.lock`))
  try {
    if (!existsSync(path.join(folder, WHOLE))) {
      const unfinished = path.join(CACHE, `unfinished-${name}`)
      for (const left of [unfinished, folder]) rmSync(left, { recursive: true, force: true })
      mkdirSync(unfinished)
      await noted(name, async () => make(unfinished))
      writeFileSync(path.join(unfinished, WHOLE), text)
      renameSync(unfinished, folder)
    }
    const now = new Date()
    utimesSync(folder, now, now)
    removeOthers(name, folder)
    return folder
  } finally {
    await release()
  }
}

/** The kernel ends the lock when its holder ends, however it ends. */
async function lock(file: string): Promise<() => Promise<unknown>> {
  const holder = spawn('flock', [file, 'sh', '-c', 'echo; exec cat >/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const closed = once(holder, 'close')
  await Promise.race([once(holder.stdout, 'data'), closed.then(() => Promise.reject(new Error('flock has ended')))])
  return () => {
    holder.stdin.end()
    return closed
  }
}

function removeOthers(name: string, kept: string): void {
  const isOfName = (file: string) => file.startsWith(`${name}-`) && /^[0-9a-f]{16}$/.test(file.slice(name.length + 1))
  const others = readdirSync(CACHE)
    .filter(isOfName)
    .map((file) => path.join(CACHE, file))
    .filter((folder) => folder !== kept)
    .map((folder) => ({ folder, idleMs: Date.now() - statSync(folder).mtimeMs }))
    .sort((one, other) => one.idleMs - other.idleMs)
  for (const [index, { folder, idleMs }] of others.entries())
    if (idleMs > KEPT_MS || (index + 1 >= MOST_OF_A_NAME && idleMs > IN_USE_MS))
      rmSync(folder, { recursive: true, force: true })
}

/**
 * A digest of files and folders with all that is in them, by name, mode and content.
 * @param names relative to the repository, or absolute
 */
export function contentOf(...names: readonly string[]): string {
  const hash = createHash('sha256')
  for (const name of names) {
    const file = path.resolve(ROOT, name)
    // A clone in another folder has the same content.
    addTo(hash, file, path.relative(ROOT, file))
  }
  return hash.digest('hex')
}

/** Maps are packed nowhere; what the compiler and the tests keep for themselves is no input. */
const NO_INPUT = /\.map$|^\.(?:built|tsbuildinfo)|^(?:test|bench)$/

function addTo(hash: Hash, file: string, name: string): void {
  const stat = lstatSync(file)
  hash.update(`${name}\0${stat.mode}\0`)
  if (stat.isDirectory()) {
    const names = readdirSync(file).filter((one) => !NO_INPUT.test(one))
    for (const one of names.sort()) addTo(hash, path.join(file, one), `${name}/${one}`)
  } else hash.update(stat.isSymbolicLink() ? readlinkSync(file) : readFileSync(file))
}

const LISTS = '/var/lib/apt/lists'

/** Changes when this machine learns of other versions of Debian's packages; each day where it has no lists. */
export function debianState(): string {
  const names = existsSync(LISTS) ? readdirSync(LISTS).filter((name) => name.endsWith('InRelease')) : []
  if (names.length === 0) return new Date().toISOString().slice(0, 10)
  return contentOf(...names.sort().map((name) => path.join(LISTS, name)))
}

/** All that packages, images and releases are made of, beside what Debian and npm bring. */
export const productionContent = (): string =>
  contentOf(
    'dist',
    'deploy',
    'docs',
    'migrations',
    'src/events/templates',
    'signer',
    'package.json',
    'package-lock.json',
  )
