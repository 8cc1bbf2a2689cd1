/**
 * Whether the author of a request may still do what the gate has let in.
 *
 * Read in the transaction that does it, and held until its commit: a logout, a revocation or a
 * change of role that comes first wins, and one that comes later waits.
 */

import type { CommonQueryMethods } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { holdApiToken, holdSession } from './session-store.ts'

type Author = Pick<Partial<Actor>, 'role' | 'sessionId' | 'apiTokenId'>

/**
 * Authors without session and token are the command line and the service itself.
 *
 * @throws AdminError unauthorized, forbidden
 */
export async function requireAuthority(tx: CommonQueryMethods, author: Author): Promise<void> {
  const { role, sessionId, apiTokenId } = author
  if (sessionId === undefined && apiTokenId === undefined) return
  const current =
    sessionId === undefined ? await holdApiToken(tx, apiTokenId as string) : await holdSession(tx, sessionId)
  if (current === undefined) throw noLongerGood()
  if (role === 'admin' && current !== 'admin') throw new AdminError('forbidden', 'this needs the role admin')
}

export const noLongerGood = () => new AdminError('unauthorized', 'the token has expired, or was logged out or revoked')
