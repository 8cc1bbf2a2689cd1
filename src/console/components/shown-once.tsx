/** A secret that the service shows once: the dialog closes only when its reader says so. */

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { holdPlace } from '../router.ts'
import { Copyable } from './basics.tsx'
import { Dialog } from './dialog.tsx'
import { tell } from './toast.tsx'

interface ShownOnceProps {
  title: string
  secrets: readonly (readonly [label: string, text: string])[]
  onClose: () => void
  children?: ComponentChildren
}

export function ShownOnce({ title, secrets, onClose, children }: ShownOnceProps) {
  useEffect(() => {
    // The browser asks before it loads the page again or leaves it.
    const ask = (event: Event) => event.preventDefault()
    addEventListener('beforeunload', ask)
    const release = holdPlace(() =>
      tell('Copy it first, then press “I have copied it”: it is lost when you leave this page.', 'bad'),
    )
    return () => {
      removeEventListener('beforeunload', ask)
      release()
    }
  }, [])
  return (
    <Dialog title={title} wide>
      <p>Copy it now: it is shown only once.</p>
      {secrets.map(([label, text]) => (
        <section class="section" key={label}>
          <h3>{label}</h3>
          <Copyable text={text} block />
        </section>
      ))}
      {children}
      <div class="actions">
        <button type="button" class="primary" onClick={onClose}>
          I have copied it
        </button>
      </div>
    </Dialog>
  )
}
