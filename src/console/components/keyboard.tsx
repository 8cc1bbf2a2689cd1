/** Keys of the whole console: `g` and a letter opens a page, `j` and `k` walk along rows, `?` lists them. */

import { useEffect, useState } from 'preact/hooks'
import { can } from '../api.ts'
import { go } from '../router.ts'
import { ROUTES } from '../routes.ts'
import { createStore, useStore } from '../store.ts'
import { Button } from './basics.tsx'
import { CloseButton, Dialog } from './dialog.tsx'
import { CheckField } from './form.tsx'
import { openSearch } from './search.tsx'

/** Speech input types letters, so its users have to be able to turn them off (WCAG 2.2, 2.1.4). */
const KEY = 'chancery.keys'
const isOn = createStore(localStorage.getItem(KEY) !== 'off')
/** Longer than a person takes between two keys. */
const SECOND_KEY_MS = 1_500

function turn(on: boolean): void {
  localStorage.setItem(KEY, on ? 'on' : 'off')
  isOn.set(on)
}

const pages = () => ROUTES.filter(({ key, needs }) => key !== undefined && can(needs))

/** In a field or beside a modifier, a letter is none of ours. */
function isTyped({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  const isField = target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]')
  return isField || ctrlKey || metaKey || altKey || document.querySelector('dialog[open]') !== null
}

/** Gives the focus to the first link or button of another row. @param step 1 for the next, -1 for the one before */
function walk(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main tbody tr')]
  const now = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[now === -1 ? 0 : now + step]
  const control = next?.querySelector<HTMLElement>('th a, td a') ?? next?.querySelector<HTMLElement>('a, button, input')
  control?.focus()
}

export function Keyboard() {
  const on = useStore(isOn)
  const [isHelpOpen, setHelpOpen] = useState(false)
  useEffect(() => {
    if (!on) return
    let waitsUntil = 0
    const press = (event: KeyboardEvent) => {
      if (isTyped(event)) return
      const { key } = event
      const page = Date.now() < waitsUntil ? pages().find((route) => route.key === key) : undefined
      waitsUntil = key === 'g' ? Date.now() + SECOND_KEY_MS : 0
      if (page) go(page.path)
      else if (key === 'j') walk(1)
      else if (key === 'k') walk(-1)
      else if (key === '?') setHelpOpen(true)
      else if (key === '/' && can('search')) openSearch()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [on])
  return (
    <>
      <Button kind="small" text="Keyboard shortcuts" onClick={() => setHelpOpen(true)} />
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </>
  )
}

const OTHERS = [
  ['j', 'next row'],
  ['k', 'row before'],
  ['?', 'this list'],
  ['/', 'search; Ctrl K, too'],
] as const

function Help({ onClose }: { onClose: () => void }) {
  const on = useStore(isOn)
  const all = [...OTHERS, ...pages().map(({ key, name }) => [`g ${key}`, name] as const)]
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="facts">
        {all.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <CheckField label="Use these shortcuts in this browser" checked={on} onChange={turn} />
      <CloseButton onClose={onClose} />
    </Dialog>
  )
}
