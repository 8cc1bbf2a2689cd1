/** The thread of password hashes: one at a time, at the priority of the thread that started it (passwords.ts). */

import { spawn } from '../../runtime/actor.ts'
import { runThread } from '../../runtime/thread-entry.ts'
import { hashPassword, matchesHash } from './password-hash.ts'
import type { HashingMessages } from './passwords.ts'

runThread<undefined, HashingMessages>(async ({ name }) => {
  const actor = spawn<HashingMessages>({
    name,
    mailboxLimit: 4,
    restart: { initialDelayMs: 0, maxDelayMs: 0, maxRestarts: 0, windowMs: 1 },
    // Every message is an ask, whose failure its sender gets.
    onFailure: ({ error }) => {
      throw error
    },
    start: () => ({
      hash: hashPassword,
      matches: ({ stored, password }) => matchesHash(stored, password),
    }),
  })
  return { actor, drain: (deadlineMs) => actor.drain(deadlineMs) }
})
