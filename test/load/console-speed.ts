/**
 * How heavy is the console, and how soon can it be used, on a processor a quarter as fast?
 *
 * `node compiled/test/load/console-speed.js [CERTIFICATES [DATABASE]]` (default 200,000; a DATABASE is kept, as `admin-lists.ts` says)
 * opens it with nothing in the cache, signs in, and loads it again. A page can be used when it is drawn and the main thread is
 * free: the form with the cursor in it, the overview with its figures and charts. It ends with 1 when a goal is missed.
 */

import { filledDatabase } from '../support/databases/filled-database.ts'
import { type MeasuredConsole, type MeasuredTab, report, signInOn, startMeasuredConsole } from './console.ts'
import { median as medianOf } from './figures.ts'

const ROUNDS = 7
const SLOWED = 4
const MOST_KILOBYTES = 100
const MOST_MS = 500

/** In the page: notes when what a person waits for has been drawn, and the main thread has turned to something else. */
const MARKS = `(() => {
  const marks = window.marks = {}
  const note = (name, isThere) => {
    const look = () => isThere() ? setTimeout(() => { marks[name] = performance.now() }) : requestAnimationFrame(look)
    look()
  }
  note('form', () => document.activeElement?.matches('form input') && document.querySelector('form button:not(:disabled)'))
  note('overview', () => document.querySelector('.figures strong') && document.querySelectorAll('.plot canvas').length >= 2)
  addEventListener('submit', () => { marks.submit = performance.now() }, true)
})()`

interface Marks {
  form?: number
  submit?: number
  overview?: number
}

interface Round {
  bytes: number
  form: number
  login: number
  signedIn: number
  reloaded: number
}

const [certificates = '200000', database] = process.argv.slice(2)
const measured = await startMeasuredConsole(await filledDatabase(Number(certificates), database))
try {
  // Not the first of all: what the service and the database do once is not the console's.
  await load(measured)
  const rounds: Round[] = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await load(measured))
  const median = (of: (round: Round) => number) => medianOf(rounds.map(of))
  report([
    { what: 'first load, compressed', value: median(({ bytes }) => bytes / 1000), unit: 'KB', most: MOST_KILOBYTES },
    { what: 'address to sign-in form', value: median(({ form }) => form), unit: 'ms', most: MOST_MS },
    { what: 'sign-in to overview with its data', value: median((one) => one.signedIn), unit: 'ms', most: MOST_MS },
    { what: '  of it the reply to the sign-in', value: median(({ login }) => login), unit: 'ms' },
    { what: 'loaded again to overview with its data', value: median((one) => one.reloaded), unit: 'ms', most: MOST_MS },
  ])
} finally {
  await measured.close()
}
process.exit()

async function load(shown: MeasuredConsole): Promise<Round> {
  const tab = await shown.openTab()
  const { page, devtools } = tab
  let bytes = 0
  devtools.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  await devtools.send('Network.enable')
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: SLOWED })
  await page.addInitScript(MARKS)
  await page.goto(shown.url)
  const { form = Number.NaN } = await marksOf(tab, 'form')
  const ofFirstLoad = bytes
  const login = page.waitForResponse((response) => response.url().endsWith('/auth/login'))
  await signInOn(page, shown)
  const { timing } = await login.then(async (response) => {
    await response.finished()
    return { timing: response.request().timing() }
  })
  const { submit = Number.NaN, overview = Number.NaN } = await marksOf(tab, 'overview')
  await page.reload()
  const { overview: reloaded = Number.NaN } = await marksOf(tab, 'overview')
  await tab.close()
  return { bytes: ofFirstLoad, form, login: timing.responseEnd, signedIn: overview - submit, reloaded }
}

/** Seldom, as looking costs the page time, too. */
async function marksOf({ page }: MeasuredTab, wanted: keyof Marks): Promise<Marks> {
  for (;;) {
    await page.waitForTimeout(250)
    const marks = (await page.evaluate('window.marks')) as Marks
    if (marks[wanted] !== undefined) return marks
  }
}
