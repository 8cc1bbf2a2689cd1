/** The user's choices in this browser: the zone of times (UTC as in logs and mails, or its own), and dark or light. */

import { endOfDayIn, instantIn, wholeDaysIn, ZONES, type Zone } from './format.ts'
import { createStore, useStore } from './store.ts'

const ZONE_KEY = 'chancery.zone'
const chosenZone = createStore<Zone>(ZONES.find((zone) => zone === localStorage.getItem(ZONE_KEY)) ?? 'utc')

export const useZone = () => useStore(chosenZone)

export function chooseZone(zone: Zone): void {
  localStorage.setItem(ZONE_KEY, zone)
  chosenZone.set(zone)
}

const OF_BROWSER = Intl.DateTimeFormat().resolvedOptions().timeZone
export const isBrowserInUtc = /^(?:Etc\/)?(?:UTC|GMT|UCT|Zulu|Universal)$/.test(OF_BROWSER)

/** `UTC`, `Europe/Berlin`. */
export const zoneName = (zone: Zone = chosenZone.get()): string => (zone === 'utc' ? 'UTC' : OF_BROWSER)

/** `2026-11-23 08:39`, or with seconds. A component that shows it calls `useZone`, to be drawn anew with the zone. */
export const instantText = (at: string | number | Date, seconds = false) => instantIn(chosenZone.get(), at, seconds)

/** The last millisecond of a day; another time stays as it is. */
export const endOfDay = (text: string) => endOfDayIn(chosenZone.get(), text)

/** Makes days of a query whole days of the zone (`wholeDaysIn`). */
export const withWholeDays = <Q extends Readonly<Record<string, string>>>(query: Q): Q =>
  wholeDaysIn(chosenZone.get(), query)

export const THEMES = ['auto', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const THEME_KEY = 'chancery.theme'
const systemIsDark = matchMedia('(prefers-color-scheme: dark)')
const chosenTheme = createStore<Theme>(stored())
const drawn = createStore<'light' | 'dark'>('light')

function stored(): Theme {
  const kept = localStorage.getItem(THEME_KEY)
  return THEMES.find((theme) => theme === kept) ?? 'auto'
}

function draw(): void {
  const theme = chosenTheme.get()
  document.documentElement.style.colorScheme = theme === 'auto' ? 'light dark' : theme
  drawn.set(theme === 'auto' ? (systemIsDark.matches ? 'dark' : 'light') : theme)
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(THEME_KEY, theme)
  chosenTheme.set(theme)
  draw()
}

export function watchTheme(): void {
  systemIsDark.addEventListener('change', draw)
  draw()
}

export const useChosenTheme = () => useStore(chosenTheme)
/** Changes with the colours: what is drawn by hand has to be drawn again. */
export const useTheme = () => useStore(drawn)
