/** Questions of the service about a request, asked over the page; the request continues with the answer. */

import { createStore, useStore } from './store.ts'
import { onForgotten } from './stored-session.ts'

interface Question {
  /** It asks who the user is, or why another person should approve. */
  kind: 'identity' | 'reason'
  /** The service's sentence. */
  message: string
  answer(text: string): void
  cancel(): void
}

const open = createStore<Question | undefined>(undefined)
let last: Promise<unknown> = Promise.resolve()

export const useQuestion = () => useStore(open)

/** One question after the other. @throws the refusal itself when the user cancels */
export function askOverPage(kind: Question['kind'], refusal: Error): Promise<string> {
  const asked = last.then(
    () =>
      new Promise<string>((resolve, reject) => {
        const close = (then: () => void) => {
          open.set(undefined)
          then()
        }
        open.set({
          kind,
          message: refusal.message,
          answer: (text) => close(() => resolve(text)),
          cancel: () => close(() => reject(refusal)),
        })
      }),
  )
  last = asked.catch(() => undefined)
  return asked
}

/** The second factor that is required is missing: the session can only register a passkey. */
export const isFactorMissing = createStore(false)
onForgotten(() => isFactorMissing.set(false))

export function sendToEnrol(): void {
  isFactorMissing.set(true)
  location.hash = '/profile'
}
