/**
 * Giving up root: a daemon that was started as root reads secret and keys with its rights, becomes
 * the configured user for good, and only then opens its audit chain and its socket. The kernel
 * drops all capabilities with the last root id.
 */

import { userInfo } from 'node:os'
import type { SignerConfig } from './config.ts'

/** The types of Node leave it out. */
const posix = process as unknown as { initgroups(user: string, group: string): void }

export const isRoot = (): boolean => process.getuid?.() === 0

/**
 * Does nothing without a configured user, or when the process is that user already.
 * @throws Error in one sentence when it could not become that user, or could become root again
 */
export function dropPrivileges({ user, group }: Pick<SignerConfig, 'user' | 'group'>): void {
  if (user === undefined || group === undefined) return
  if (!isRoot()) {
    const { username } = userInfo()
    if (username === user) return
    throw new Error(`user: the signer runs as ${username} and cannot become ${user}; start it as root or as ${user}`)
  }
  try {
    // In this order: the user may not change its groups any more. A token's daemon often wants a
    // group of its own, so those of the user's are kept.
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
