/**
 * Files that outlive a program: locks that the kernel frees, names that are on disk, and contents that a crash leaves as
 * they were or as they are to be. Also files that an operator names, and the certificates in them.
 */

import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { open, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describeFileError } from './errors.ts'

const IS_TAKEN = 1

/**
 * Takes flock(2): the kernel frees it when the process ends, however it ends, and other containers see it, too.
 * Node.js has none, so flock(1) asks: the lock belongs to the open file that both have, and stays with this process.
 *
 * @returns false while another process has it; undefined where there is no flock(1), or the file system has no locks
 */
export function tryLock(fd: number): boolean | undefined {
  const { status } = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] })
  return status === IS_TAKEN ? false : status === 0 || undefined
}

export const isLocked = (file: string): boolean => spawnSync('flock', ['-n', file, 'true']).status === IS_TAKEN

/** Puts the names in a folder on disk, so that a new file outlives a loss of power. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync().finally(() => handle.close())
}

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g

/** @throws Error that names the file */
export function readBytes(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
}

/** @throws Error that names the file; also where it holds none */
export function readCertificates(file: string): X509Certificate[] {
  const found = certificatesIn(readBytes(file).toString('latin1'), file)
  if (found.length === 0) throw new Error(`${file}: holds no certificate in PEM form`)
  return found
}

/** Text around the blocks is common and allowed. */
export function certificatesIn(pem: string, file: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).map((block, index) => {
    try {
      return new X509Certificate(block)
    } catch (cause) {
      throw new Error(`${file}: certificate ${index + 1} in it cannot be parsed`, { cause })
    }
  })
}

/** Durable when it resolves. Mode 0640. */
export async function replaceFile(file: string, content: string | Uint8Array): Promise<void> {
  const beside = `${file}.new`
  try {
    await writeFile(beside, content, { mode: 0o640, flush: true })
  } catch (error) {
    // A part of it would take room on a disk that is full. The error that counts is the first one.
    await rm(beside, { force: true }).catch(() => undefined)
    throw error
  }
  await rename(beside, file)
  await syncFolder(path.dirname(file))
}

/** @returns a function that replaces the content of `file`, one call after the other */
export function replacer(file: string): (content: string) => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  return (content) => {
    // An earlier failure was reported to its own caller.
    last = last.catch(() => undefined).then(() => replaceFile(file, content))
    return last
  }
}
