/** One line at the foot of the page that says what has just happened; screen readers hear it. */

import { createStore, useStore } from '../store.ts'

interface Told {
  text: string
  tone: 'good' | 'bad'
}

const SHOWN_MS = 6_000
const told = createStore<Told | undefined>(undefined)
let timer: ReturnType<typeof setTimeout> | undefined

export function tell(text: string, tone: Told['tone'] = 'good'): void {
  told.set({ text, tone })
  clearTimeout(timer)
  timer = setTimeout(() => told.set(undefined), SHOWN_MS)
}

export function Toast() {
  const now = useStore(told)
  return (
    <div class="toast" role="status" aria-live="polite">
      {now && <p class={now.tone}>{now.text}</p>}
    </div>
  )
}
