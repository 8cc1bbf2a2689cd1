/** Dark or light: as the system says, unless the user has chosen. */

import { createStore, useStore } from './store.ts'

export const THEMES = ['auto', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const KEY = 'chancery.theme'
const systemIsDark = matchMedia('(prefers-color-scheme: dark)')
const chosen = createStore<Theme>(stored())
const drawn = createStore<'light' | 'dark'>('light')

function stored(): Theme {
  const kept = localStorage.getItem(KEY)
  return THEMES.find((theme) => theme === kept) ?? 'auto'
}

function draw(): void {
  const theme = chosen.get()
  document.documentElement.style.colorScheme = theme === 'auto' ? 'light dark' : theme
  drawn.set(theme === 'auto' ? (systemIsDark.matches ? 'dark' : 'light') : theme)
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme)
  chosen.set(theme)
  draw()
}

export function watchTheme(): void {
  systemIsDark.addEventListener('change', draw)
  draw()
}

export const useChosenTheme = () => useStore(chosen)
/** Changes with the colours: what is drawn by hand has to be drawn again. */
export const useTheme = () => useStore(drawn)
