/**
 * Gives up root. A daemon started as root reads secret and keys as root, then becomes the configured user for good.
 * Only then it opens its audit chain and socket. The kernel drops all capabilities with the last root id.
 */

import { accessSync, constants, existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import type { SignerConfig } from './config.ts'
import { type CrlNumbers, openCrlNumbers, openSignedCrls, type SignedCrls } from './crl-numbers.ts'
import { requireShortPath, requireSocketFolder } from './socket-server.ts'

const { R_OK, W_OK, X_OK } = constants

/**
 * Checks every place without creating any (`--validate-only`). A missing folder is no fault: systemd may make it.
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
  await openSignedLists(config)
  return notes
}

/** @throws Error in one sentence that begins with the configuration key of the file */
export function openNumbers({ crl_numbers_file: file, audit }: SignerConfig): Promise<CrlNumbers> {
  if (file !== undefined) return atKey('crl_numbers_file', () => openCrlNumbers(file))
  return atKey('audit.file', () => openCrlNumbers(`${audit.file}.crl-numbers`))
}

/** @throws Error in one sentence that begins with the configuration key of the audit file */
export function openSignedLists({ audit }: SignerConfig): Promise<SignedCrls> {
  return atKey('audit.file', () => openSignedCrls(`${audit.file}.signed-crls`))
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

/** Node's types lack it. */
const posix = process as unknown as { initgroups(user: string, group: string): void }

export const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Does nothing without a configured user, or when the process already runs as that user.
 * @throws Error in one sentence when the change failed, or root could be regained
 */
export function dropPrivileges({ user, group }: Pick<SignerConfig, 'user' | 'group'>): void {
  if (user === undefined || group === undefined) return
  if (!isRoot()) {
    const { username } = userInfo()
    if (username === user) return
    throw new Error(`user: the signer runs as ${username} and cannot become ${user}; start it as root or as ${user}`)
  }
  try {
    // Groups first, because the user may not change them. The user's other groups stay, because a
    // token's daemon often requires its own.
    posix.initgroups(user, group)
    process.setgid?.(group)
    process.setuid?.(user)
  } catch (cause) {
    throw new Error(`user: the signer could not become ${user} with group ${group}: ${(cause as Error).message}`, {
      cause,
    })
  }
  if (isRoot() || canBecomeRoot())
    throw new Error(`user: ${user} is root, or can become it; use a user of the signer's own`)
}

function canBecomeRoot(): boolean {
  try {
    process.setuid?.(0)
    return true
  } catch {
    return false
  }
}
