/** Checks the daemon's files and socket before the start. Errors name their configuration key. */

import { accessSync, constants, existsSync } from 'node:fs'
import path from 'node:path'
import type { SignerConfig } from './config.ts'
import { type CrlNumbers, openCrlNumbers } from './crl-numbers.ts'
import { requireShortPath, requireSocketFolder } from './server.ts'

const { R_OK, W_OK, X_OK } = constants

/**
 * Checks every place without creating any (`--validate-only`). A missing folder is no fault:
 * systemd may make it.
 * @returns what is missing and the start will create
 * @throws Error in one sentence: why the daemon would not start
 */
export async function inspectPlaces(config: SignerConfig): Promise<string[]> {
  const { socket, audit } = config
  const notes: string[] = []
  await atKey('socket', () => {
    requireShortPath(socket)
    if (existsSync(path.dirname(socket))) requireSocketFolder(socket)
  })

  const auditFolder = path.dirname(audit.file)
  if (existsSync(audit.file)) await atKey('audit.file', () => accessSync(audit.file, R_OK | W_OK))
  else if (existsSync(auditFolder)) await atKey('audit.file', () => accessSync(auditFolder, W_OK | X_OK))
  else notes.push(`audit.file: ${auditFolder} is not there yet; the start needs it, owned by the user of the signer`)

  await openNumbers(config)
  return notes
}

/** @throws Error in one sentence that begins with the configuration key of the file */
export function openNumbers({ crl_numbers_file: file, audit }: SignerConfig): Promise<CrlNumbers> {
  if (file !== undefined) return atKey('crl_numbers_file', () => openCrlNumbers(file))
  return atKey('audit.file', () => openCrlNumbers(`${audit.file}.crl-numbers`))
}

/** For files and folders that the daemon creates. Other errors already have their own sentences. */
const REASONS: Record<string, (place: string) => string> = {
  ENOENT: (place) => `there is no folder ${path.dirname(place)}; make it, owned by the user of the signer`,
  EACCES: (place) =>
    `permission denied at ${place} for uid ${process.getuid?.()}; the folder has to belong to the user of the signer`,
  EROFS: (place) => `${place} is on a file system that is read-only`,
  ENOTDIR: (place) => `a part of the path ${place} is not a folder`,
}

/** Runs `open`. @throws Error in one sentence that begins with `key`, for any failure */
export async function atKey<T>(key: string, open: () => T | Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (cause) {
    throw new Error(`${key}: ${describe(cause)}`, { cause })
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code, path: place } = (error.cause ?? error) as NodeJS.ErrnoException
  const reason = code === undefined || place === undefined ? undefined : REASONS[code]
  return reason === undefined ? error.message : reason(place!)
}
