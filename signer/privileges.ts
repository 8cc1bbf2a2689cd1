/**
 * Gives up root. A daemon started as root reads secret and keys as root, then becomes the
 * configured user for good. Only then it opens its audit chain and socket. The kernel drops all
 * capabilities with the last root id.
 */

import { userInfo } from 'node:os'
import type { SignerConfig } from './config.ts'

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
