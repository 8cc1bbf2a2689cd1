/**
 * Revokes what else has a key whose compromise its holder has proved (CA/Browser Forum BR 4.9.1.1 (3)). Triggers report it to
 * owners, CRLs and other CAs, as every revocation (docs/decisions/compromised-keys.md).
 *
 * Certificates have no index by key, which each issuance would pay for: one walk through all of them serves all keys. A walk
 * that was interrupted begins again.
 */

import type { CompromisedKeyStore, DueKey } from '../store/compromised-key-store.ts'
import type { NoteRevocations } from './reconcile/revocation-notes.ts'

interface CompromisedKeysParts {
  store: CompromisedKeyStore
  note: NoteRevocations
  onRevoked(certificateIds: readonly string[]): void
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'
/** Half a second, and as long for what is revoked; other tasks of the role wait meanwhile. */
const WINDOWS = 25
const REVOKED = 1_000

/** @returns one round; the next continues where it has ended. It resolves to the number of revoked certificates */
export function compromisedKeys({ store, note, onRevoked }: CompromisedKeysParts): () => Promise<number> {
  let walk: { keys: DueKey[]; afterId: string } | undefined
  /** Keys that have had a walk, and get their last one once they are settled. */
  const walked = new Set<string>()
  const isDue = ({ key, isSettled }: DueKey) => isSettled || !walked.has(key.toString('hex'))
  return async () => {
    walk ??= { keys: (await store.due()).filter(isDue), afterId: FIRST_ID }
    let count = 0
    const hashes = walk.keys.map(({ key }) => key)
    for (let windows = 0; walk.keys.length > 0 && windows < WINDOWS && count < REVOKED; windows++) {
      const { revoked, end } = await store.revokeWindow(hashes, walk.afterId)
      count += revoked.length
      if (revoked.length > 0) onRevoked(revoked)
      await note(revoked)
      if (end !== undefined) walk.afterId = end
      else {
        for (const { key, isSettled } of walk.keys) walked[isSettled ? 'delete' : 'add'](key.toString('hex'))
        await store.spread(walk.keys.filter(({ isSettled }) => isSettled))
        walk.keys = []
      }
    }
    if (walk.keys.length === 0) walk = undefined
    return count
  }
}
