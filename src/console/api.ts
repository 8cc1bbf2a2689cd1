/**
 * The Admin API for pages: `call` for one request, `can` for what the user's role allows; hooks are in `use-api.ts`. The service
 * may ask something about a request: the question is put over the page, and the request continues with the answer.
 */

import {
  AdminApiError,
  AdminClient,
  ApprovalRequested,
  type Input,
  type OperationId,
  type Output,
  type Routes,
} from '../admin/client.ts'
import { createStore, useStore } from './store.ts'
import { currentSession, expire, noteUser, onForgotten, type Role, signedInAgain } from './stored-session.ts'

export type { Input, OperationId, Output }
export { AdminApiError, ApprovalRequested }

type Described = readonly [method: string, path: string, roles: readonly Role[] | 'none', query: readonly string[]]
/** `src/dev/build-console.mjs` makes it from the descriptions of the endpoints. */
declare const OPERATIONS_OF_BUILD: Readonly<Record<OperationId, Described>>

/** The service itself waits up to 25 seconds for a job. */
const TIMEOUT_MS = 60_000

export const BASE_URL = new URL('..', location.href).href.replace(/\/$/, '')

const client = new AdminClient({
  routes: OPERATIONS_OF_BUILD as unknown as Routes,
  baseUrl: BASE_URL,
  token: () => currentSession().token,
  fetch: (url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }),
})

/** The parameters of the operation's query. */
export const queryOf = (id: OperationId): readonly string[] => OPERATIONS_OF_BUILD[id][3]

/** A change was sent, and its answer did not come. */
export class LostReply extends Error {}

/** Whether the signed-in user's role may call an operation. */
export function can(id: OperationId): boolean {
  const roles = OPERATIONS_OF_BUILD[id][2]
  const { user } = currentSession()
  return roles === 'none' || (user !== undefined && roles.includes(user.role))
}

/** These concern the session of the moment, and are not sent again for a later one. */
const OF_THIS_SESSION: readonly OperationId[] = [
  'login',
  'logout',
  'startOidc',
  'finishOidc',
  'signInByPasskey',
  'confirmSignIn',
]

/**
 * Asks for a new sign-in and then tries again, when the service no longer takes the token. It does the same when a grave
 * act needs a confirmation, or the reason for another person.
 */
async function inSession<T>(id: OperationId, ask: (approvalReason?: string) => Promise<T>): Promise<T> {
  let reason: string | undefined
  if (OF_THIS_SESSION.includes(id)) return await ask()
  for (;;) {
    if (OPERATIONS_OF_BUILD[id][2] !== 'none') await signedInAgain()
    const { token } = currentSession()
    try {
      return await ask(reason)
    } catch (error) {
      if (error instanceof TypeError && OPERATIONS_OF_BUILD[id][0] !== 'GET') throw new LostReply()
      if (!(error instanceof AdminApiError)) throw error
      if (error.body.error === 'forbidden') void refreshUser()
      if (error.body.error === 'second_factor_needed') sendToEnrol()
      if (error.body.error === 'sign_in_again') await askOverPage('identity', error)
      else if (error.body.error === 'approval_needed' && reason === undefined)
        reason = await askOverPage('reason', error)
      // A proxy's 401, or a refused passkey, ends no session.
      else if (error.body.error === 'unauthorized') expire(token)
      else throw error
    }
  }
}

/** The role may have changed since it was read. */
const refreshUser = (): Promise<void> => client.call('getMe', {}).then(noteUser, () => undefined)

/** @throws AdminApiError; TypeError or DOMException when the service does not answer */
export const call = <I extends OperationId>(id: I, input: Input<I>): Promise<Output<I>> =>
  inSession(id, (reason) => client.call(id, input, reason))

/** It is `call`, with the status and the place of the next page. */
export const page = <I extends OperationId>(id: I, input: Input<I>) => inSession(id, () => client.page(id, input))
export const follow = <I extends OperationId>(id: I, next: string) => inSession(id, () => client.follow(id, next))

/** The lines of a streamed reply. */
export const lines = <I extends OperationId>(id: I, input: Input<I>) => client.lines(id, input)

interface Question {
  /** It asks who the user is, or why another person should approve. */
  kind: 'identity' | 'reason'
  /** The service's sentence. */
  message: string
  answer(text: string): void
  cancel(): void
}

const openQuestion = createStore<Question | undefined>(undefined)
let lastQuestion: Promise<unknown> = Promise.resolve()

export const useQuestion = () => useStore(openQuestion)

/** One question after the other. @throws the refusal itself when the user cancels */
function askOverPage(kind: Question['kind'], refusal: Error): Promise<string> {
  const asked = lastQuestion.then(
    () =>
      new Promise<string>((resolve, reject) => {
        const close = (then: () => void) => {
          openQuestion.set(undefined)
          then()
        }
        openQuestion.set({
          kind,
          message: refusal.message,
          answer: (text) => close(() => resolve(text)),
          cancel: () => close(() => reject(refusal)),
        })
      }),
  )
  lastQuestion = asked.catch(() => undefined)
  return asked
}

/** The second factor that is required is missing: the session can only register a passkey. */
export const isFactorMissing = createStore(false)
onForgotten(() => isFactorMissing.set(false))

function sendToEnrol(): void {
  isFactorMissing.set(true)
  location.hash = '/profile'
}
