/** The frame of one page: its heading, its title in the browser, its buttons. */

import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'

interface PageFrame {
  title: string
  /** Buttons beside the title. */
  actions?: ComponentChildren
  children: ComponentChildren
}

/** The heading gets the focus when the page is opened, so that a screen reader begins there. */
export function Page({ title, actions, children }: PageFrame) {
  useEffect(() => {
    document.title = `${title} · Chancery`
  }, [title])
  return (
    <>
      <div class="head">
        <h1 tabIndex={-1}>{title}</h1>
        {actions}
      </div>
      {children}
    </>
  )
}
