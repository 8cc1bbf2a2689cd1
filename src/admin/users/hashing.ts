/** Hashes of passwords are made in a thread of their own: they need 30 ms of a processor, and must hold up nobody. */

import type { Logger } from 'pino'
import { AdminError } from '../../domain/admin-error.ts'
import { ActorError } from '../../runtime/errors.ts'
import { superviseThread } from '../../runtime/thread.ts'
import type { PasswordHashing } from './passwords.ts'

export type HashingMessages = {
  hash: { message: string; reply: string }
  matches: { message: { stored: string; password: string }; reply: boolean }
}

/** Callers send one after the other. */
const MAILBOX_LIMIT = 4
/** Less than the 30 s that clients wait. */
const ANSWER_MS = 20_000
const RETRY_SECONDS = 5
const READY_MS = 60_000
const STOP_MS = 1_000
const RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

/** The thread ends with the one that calls. */
export async function startHashing(log: Logger): Promise<PasswordHashing> {
  const thread = superviseThread<HashingMessages>({
    name: 'passwords',
    entry: new URL('./hashing-thread.js', import.meta.url),
    data: undefined,
    mailboxLimit: MAILBOX_LIMIT,
    readyTimeoutMs: READY_MS,
    stopTimeoutMs: STOP_MS,
    restart: RESTART,
    onEvent({ type, name, ...facts }) {
      if (type === 'crashed') log.error({ thread: name, ...facts }, 'thread crashed and is restarted')
      // Without it nobody could sign in; the caller's supervisor decides.
      if (type === 'escalated') throw new Error('the thread of password hashes crashes again and again')
    },
  })
  await thread.start()
  return {
    hash: (password) => thread.ref.ask('hash', password, ANSWER_MS).catch(busy),
    matches: (stored, password) => thread.ref.ask('matches', { stored, password }, ANSWER_MS).catch(busy),
  }
}

function busy(error: unknown): never {
  if (!(error instanceof ActorError)) throw error
  throw new AdminError('unavailable', 'the server is too busy to check a password; try again', {
    cause: error,
    retryAfterSeconds: RETRY_SECONDS,
  })
}
