/** Puts what clients decide over ACME into a second place before the reply. */

import type { AcmeAct, Decision } from '../../domain/decision.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { Problem } from '../../shared/protocol/problem.ts'

/** Rejects with Problem serverInternal 503 when the act is done, and is in the database alone. */
export type NoteAcmeAct = (act: AcmeAct, accountId: string | undefined, details: Decision['details']) => Promise<void>

const RETRY_AFTER_SECONDS = 5

/** @param note resolves to why it is in no second place */
export function noteAcmeActs(note: (decision: Decision) => Promise<string | undefined>): NoteAcmeAct {
  return async (act, accountId, details) => {
    const now = new Date()
    const by = accountId === undefined ? 'the holder of a key' : `account ${accountId}`
    const content = { ...(accountId !== undefined && { account_id: accountId }), ...details }
    const decision = { id: uuidv7(now.getTime()), at: now.toISOString(), act, by, details: content }
    const reason = await note(decision).catch((error: Error) => error.message)
    if (reason === undefined) return
    const sentence = 'the request was carried out, and could not be recorded so that it outlives the database'
    const options = { status: 503, retryAfterSeconds: RETRY_AFTER_SECONDS, cause: new Error(reason) }
    throw new Problem('serverInternal', sentence, options)
  }
}
