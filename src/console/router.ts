/**
 * The page and its filters live in the hash: `#/certificates?status=revoked`. So links can be kept
 * and sent, the back button works, and the server sees none of it.
 */

import { createStore, useStore } from './store.ts'

export type Query = Readonly<Record<string, string>>

export interface Place {
  path: string
  query: Query
  /** Another one for each entry of the history, the same when it is visited again. */
  entry: number
}

let entries = Date.now()

function placeNow(): Place {
  const [path = '', search = ''] = location.hash.slice(1).split('?', 2)
  const known = (history.state as { entry?: number } | null)?.entry
  const entry = known ?? entries++
  if (known === undefined) history.replaceState({ entry }, '')
  return { path: path === '' ? '/' : path, query: Object.fromEntries(new URLSearchParams(search)), entry }
}

const place = createStore(placeNow())

addEventListener('hashchange', () => place.set(placeNow()))

export const usePlace = (): Place => useStore(place)

/** Empty values are left out. */
export function href(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1])
  const search = new URLSearchParams(given).toString()
  return `#${path}${search === '' ? '' : `?${search}`}`
}

export function go(path: string, query: Readonly<Record<string, string | undefined>> = {}): void {
  location.hash = href(path, query)
}

/** Adds to the filters of this page, as a new entry of the history. */
export function changeQuery(change: Readonly<Record<string, string | undefined>>): void {
  const { path, query } = place.get()
  go(path, { ...query, ...change })
}

type Params = Readonly<Record<string, string>>

/** @param pattern such as `/certificates/:serial`. @returns undefined when it does not fit */
export function match(pattern: string, path: string): Params | undefined {
  const [expected, given] = [pattern.split('/'), path.split('/')]
  if (expected.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of expected.entries()) {
    const value = given[index] ?? ''
    if (part.startsWith(':') && value !== '') params[part.slice(1)] = decodeSafely(value)
    else if (part !== value) return undefined
  }
  return params
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The properties of every page. */
export interface PageProps {
  params: Params
  query: Query
  /** The entry of the history; `useList` remembers its rows under it. */
  entry: number
}
