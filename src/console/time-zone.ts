/** The zone in which the console shows and takes times: UTC, which logs and mails have, or the zone of the browser. */

import { endOfDayIn, instantIn, wholeDaysIn, ZONES, type Zone } from './format.ts'
import { createStore, useStore } from './store.ts'

const KEY = 'chancery.zone'
const chosen = createStore<Zone>(ZONES.find((zone) => zone === localStorage.getItem(KEY)) ?? 'utc')

export const useZone = () => useStore(chosen)

export function chooseZone(zone: Zone): void {
  localStorage.setItem(KEY, zone)
  chosen.set(zone)
}

const OF_BROWSER = Intl.DateTimeFormat().resolvedOptions().timeZone
export const isBrowserInUtc = /^(?:Etc\/)?(?:UTC|GMT|UCT|Zulu|Universal)$/.test(OF_BROWSER)

/** `UTC`, `Europe/Berlin`. */
export const zoneName = (zone: Zone = chosen.get()): string => (zone === 'utc' ? 'UTC' : OF_BROWSER)

/** `2026-11-23 08:39`, or with seconds. A component that shows it calls `useZone`, to be drawn anew with the zone. */
export const instantText = (at: string | number | Date, seconds = false) => instantIn(chosen.get(), at, seconds)

/** The last millisecond of a day; another time stays as it is. */
export const endOfDay = (text: string) => endOfDayIn(chosen.get(), text)

/** Makes days of a query whole days of the zone (`wholeDaysIn`). */
export const withWholeDays = <Q extends Readonly<Record<string, string>>>(query: Q): Q =>
  wholeDaysIn(chosen.get(), query)
