/** The focus of the keyboard, when what had it leaves the page. */

/** Else it would be nowhere: with a removed filter, or a button that no longer has anything to do. @returns what ends it */
export function keepFocus(): () => void {
  let last: EventTarget | null = null
  const note = ({ target }: FocusEvent) => {
    last = target
  }
  const observer = new MutationObserver(() => {
    if (document.activeElement !== document.body || !(last instanceof Element) || last.isConnected) return
    last = null
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
  })
  observer.observe(document.body, { childList: true, subtree: true })
  addEventListener('focusin', note)
  return () => {
    observer.disconnect()
    removeEventListener('focusin', note)
  }
}
