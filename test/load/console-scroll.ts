/**
 * Does the list of certificates scroll smoothly over millions of rows?
 *
 * `node compiled/test/load/console-scroll.js [CERTIFICATES [DATABASE]]` (default 200,000; for ten million, a DATABASE that is kept, as
 * `admin-lists.ts` says) turns the wheel until 6,000 rows have been in the page, measures every frame, and then jumps to dates.
 * It ends with 1 when a goal is missed. There is no graphics card: the frames are drawn by the processor.
 */

import { filledDatabase } from '../support/databases/filled-database.ts'
import { until } from '../support/until.ts'
import {
  type MeasuredConsole,
  type MeasuredTab,
  mainThreadMs,
  report,
  signInOn,
  startMeasuredConsole,
} from './console.ts'
import { quantile } from './figures.ts'

const ROWS_A_PAGE = 100
const MOST_ROWS = 2_000
const PAGES = 60
const WHEEL_PIXELS = 600
const WHEEL_EVERY_MS = 100
const MOST_SECONDS = 120
/** Two frames of a screen with 60. */
const MOST_FRAME_MS = 34
const MOST_MOVED_PIXELS = 2
const MOST_JUMP_MS = 1_000
const DAY_MS = 86_400_000
const DAYS_BACK = [30, 100, 200, 300, 390]

/** In the page: the time between frames, and the most rows that there were. */
const WATCH = `(() => {
  const watched = window.watched = { frames: [], rows: 0 }
  let last
  const frame = (now) => {
    if (last !== undefined) watched.frames.push(now - last)
    last = now
    watched.rows = Math.max(watched.rows, document.querySelector('tbody')?.rows.length ?? 0)
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})()`
/** The serial number in the middle of the window, and where it is. */
const MIDDLE = `(() => {
  const row = document.elementFromPoint(600, 400)?.closest('tbody tr')
  return row && { serial: row.querySelector('code').title, top: row.getBoundingClientRect().top }
})()`
const TOP_OF = (serial: string) =>
  `document.querySelector('tbody code[title="${serial}"]')?.closest('tr').getBoundingClientRect().top`

interface Watched {
  frames: number[]
  rows: number
}

const [certificates = '200000', database] = process.argv.slice(2)
const measured = await startMeasuredConsole(await filledDatabase(Number(certificates), database))
try {
  await measure(measured)
} finally {
  await measured.close()
}
process.exit()

async function measure(shown: MeasuredConsole): Promise<void> {
  const tab = await shown.openTab()
  const { page } = tab
  const pages: URL[] = []
  page.on('response', (response) => {
    const url = new URL(response.url())
    if (url.pathname.endsWith('/api/certificates') && response.ok()) pages.push(url)
  })
  await page.goto(`${shown.url}#/certificates`)
  await signInOn(page, shown)
  await page.locator('tbody tr').first().waitFor()
  const { watched, seconds, busyMs } = await scroll(tab, pages)
  const loadedOn = pages.slice(1)
  const moved = await movedWhenDropped(tab, pages)
  const jumps: number[] = []
  for (const days of DAYS_BACK) jumps.push(await jump(tab, new Date(Date.now() - days * DAY_MS)))
  const { frames, rows } = watched
  report([
    { what: 'rows that were in the page', value: (loadedOn.length + 1) * ROWS_A_PAGE, unit: '' },
    { what: 'rows a second', value: Math.round((loadedOn.length * ROWS_A_PAGE) / seconds), unit: '/s' },
    { what: 'main thread, for 100 rows', value: busyMs / loadedOn.length, unit: 'ms' },
    { what: 'pages asked for without a cursor', value: loadedOn.filter(isWithoutCursor).length, unit: '', most: 0 },
    { what: 'most rows in the page', value: rows, unit: '', most: MOST_ROWS },
    { what: 'frames', value: frames.length, unit: '' },
    { what: 'time between frames, median', value: quantile(frames, 0.5), unit: 'ms' },
    { what: 'time between frames, p95', value: quantile(frames, 0.95), unit: 'ms', most: MOST_FRAME_MS },
    { what: 'time between frames, p99', value: quantile(frames, 0.99), unit: 'ms' },
    { what: 'time between frames, longest', value: quantile(frames, 1), unit: 'ms' },
    { what: 'rows above leave: those in view move by', value: moved, unit: 'px', most: MOST_MOVED_PIXELS },
    { what: 'jump to a date, median', value: quantile(jumps, 0.5), unit: 'ms' },
    { what: 'jump to a date, longest', value: quantile(jumps, 1), unit: 'ms', most: MOST_JUMP_MS },
  ])
}

function isWithoutCursor({ searchParams }: URL): boolean {
  return !searchParams.get('cursor') || searchParams.has('offset')
}

async function scroll({ page, devtools }: MeasuredTab, pages: readonly URL[]) {
  await page.mouse.move(600, 400)
  await page.evaluate(WATCH)
  const before = await mainThreadMs(devtools)
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  while (pages.length < PAGES && seconds() < MOST_SECONDS) {
    await page.mouse.wheel(0, WHEEL_PIXELS)
    await page.waitForTimeout(WHEEL_EVERY_MS)
  }
  const watched = (await page.evaluate('window.watched')) as Watched
  return { watched, seconds: seconds(), busyMs: (await mainThreadMs(devtools)) - before }
}

/** @returns how far rows in view are from where they were when a page came at the end, and another left at the beginning */
async function movedWhenDropped({ page }: MeasuredTab, pages: readonly URL[]): Promise<number> {
  const known = pages.length
  await page.evaluate('scrollTo(0, document.body.scrollHeight - innerHeight - 500)')
  const middle = (await page.evaluate(MIDDLE)) as { serial: string; top: number }
  await until('another page has come', () => pages.length > known)
  await page.waitForTimeout(500)
  const top = (await page.evaluate(TOP_OF(middle.serial))) as number | undefined
  return Math.abs((top ?? Number.POSITIVE_INFINITY) - middle.top)
}

/** By the form, as a person does. @returns milliseconds until the first row is older */
async function jump({ page }: MeasuredTab, before: Date): Promise<number> {
  await page.evaluate('scrollTo(0, 0)')
  const wanted = before.toISOString().slice(0, 10)
  await page.locator('search').getByLabel('issued before').fill(wanted)
  const startedAt = performance.now()
  await page.locator('search form button[type=submit]').click()
  await until(`a row of before ${wanted}`, async () => {
    const issued = (await page.evaluate(
      `document.querySelector('tbody td[data-head="Issued"] time')?.dateTime ?? ''`,
    )) as string
    return issued !== '' && issued < `${wanted}T24` && Date.parse(issued) > before.getTime() - 3 * DAY_MS
  })
  return performance.now() - startedAt
}
