/** Facts about files: the answers of stat in words of the operator. */

import { readFileSync, type Stats, statfsSync, statSync } from 'node:fs'
import path from 'node:path'
import { describeFileError } from '../../shared/lib/errors.ts'

export interface FileFacts {
  file: string
  kind: 'file' | 'folder' | 'socket' | 'other'
  /** The permission bits alone. */
  mode: number
  uid: number
  gid: number
  modifiedAt: Date
}

type Stated =
  | { facts: FileFacts; problem?: never; text?: never }
  | { facts?: never; problem: 'missing' | 'closed'; text: string }

/** Looks at a file, at the end of all links. */
export function stateOf(file: string): Stated {
  try {
    return { facts: factsOf(file, statSync(file)) }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const problem = code === 'ENOENT' || code === 'ENOTDIR' ? 'missing' : 'closed'
    return { problem, text: describeFileError(error) }
  }
}

function factsOf(file: string, stats: Stats): FileFacts {
  const kind = stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : stats.isSocket() ? 'socket' : 'other'
  return { file, kind, mode: stats.mode & 0o7777, uid: stats.uid, gid: stats.gid, modifiedAt: stats.mtime }
}

export const octal = (mode: number): string => mode.toString(8).padStart(3, '0')

let names: ReadonlyMap<number, string> | undefined

/** The name of the user, or the number where there is no name, as in a container. */
export function userName(uid: number): string {
  names ??= namesIn('/etc/passwd')
  return names.get(uid) ?? `uid ${uid}`
}

function namesIn(file: string): ReadonlyMap<number, string> {
  try {
    const lines = readFileSync(file, 'utf8').split('\n')
    return new Map(lines.map((line) => line.split(':')).map(([name = '', , id]) => [Number(id), name]))
  } catch {
    return new Map()
  }
}

export interface DiskFacts {
  folder: string
  freeBytes: number
  totalBytes: number
  /** The share of files that can still be made, from 0 to 1; 1 where the file system does not count files. */
  freeFiles: number
}

/** Looks at the disk of the nearest folder that exists. @throws Error with a code */
export function diskOf(place: string): DiskFacts {
  const folder = nearestFolder(path.resolve(place))
  const { bavail, blocks, bsize, ffree, files } = statfsSync(folder)
  return { folder, freeBytes: bavail * bsize, totalBytes: blocks * bsize, freeFiles: files > 0 ? ffree / files : 1 }
}

function nearestFolder(place: string): string {
  try {
    return statSync(place).isDirectory() ? place : path.dirname(place)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || path.dirname(place) === place) throw error
    return nearestFolder(path.dirname(place))
  }
}
