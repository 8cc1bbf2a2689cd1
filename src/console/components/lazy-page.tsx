/** Pages whose code is loaded when they are opened first. */

import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { PageProps } from '../router.ts'
import { Problem, Skeleton } from './basics.tsx'

type Page = ComponentType<PageProps>
type Load<K extends string> = () => Promise<Readonly<Record<K, Page>>>

/** They load the pages that nobody has opened yet. */
const loaders: (() => Promise<unknown>)[] = []

/** @param load imports a file @param names of the components that it exports */
export const lazyPages = <K extends string>(load: Load<K>, ...names: readonly K[]) =>
  Object.fromEntries(names.map((name) => [name, lazyPage(load, name)])) as Readonly<Record<K, Page>>

function lazyPage<K extends string>(load: Load<K>, name: K): Page {
  let loaded: Page | undefined
  const fetchPage = async () => {
    loaded = (await load())[name]
  }
  loaders.push(fetchPage)
  return function LazyPage(props: PageProps) {
    const [error, setError] = useState<unknown>()
    const [isLate, setLate] = useState(false)
    const isDrawn = loaded !== undefined
    useEffect(() => {
      // It may have been loaded since it was drawn.
      if (!isDrawn) fetchPage().then(() => setLate(true), setError)
    }, [])
    // The frame gives the focus to the heading of a page that is there at once.
    useEffect(() => {
      if (isLate) document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
    }, [isLate])
    if (loaded) {
      const Loaded = loaded
      return <Loaded {...props} />
    }
    return error === undefined ? <Skeleton /> : <NotLoaded />
  }
}

/** An upgrade of the service replaces the files that an open page was built with. */
const NotLoaded = () => (
  <>
    <h1 tabIndex={-1}>This page could not be loaded</h1>
    <Problem
      error="not loaded"
      sentence="The service does not answer, or was upgraded since this tab was opened. Load the console again."
      retry={() => location.reload()}
    />
  </>
)

/** After the data of the first page: all pages are 84 KB, more than the first load (`test/load/console-speed.ts`). */
const LATER_MS = 2_000

/** Later pages then open at once, also after an upgrade of the service. @returns what ends the wait */
export function loadAllPages(): () => void {
  const timer = setTimeout(() => {
    // What fails now is asked for again when its page is opened.
    for (const load of loaders) load().catch(() => undefined)
  }, LATER_MS)
  return () => clearTimeout(timer)
}
