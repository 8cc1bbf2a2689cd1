/**
 * Does a live overview keep its memory?
 *
 * `node compiled/test/load/console-memory.js [--minutes 60]` leaves the overview open, which asks every five seconds, while an ACME
 * client gets a certificate every minute. Every minute it collects garbage and counts the JavaScript heap, the nodes and the
 * listeners. It ends with 1 when the heap grows: the first tenth of the time, when code is compiled, does not count.
 */

import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { CDPSession, Page } from 'playwright-core'
import { registeredClient, startResponder } from '../support/acme-client.ts'
import { filledDatabase } from '../support/databases/filled-database.ts'
import { type MeasuredConsole, report, signInOn, startMeasuredConsole } from './console.ts'

const SAMPLE_MS = 60_000
const CERTIFICATES = 20_000
const MEGABYTE = 1_000_000
const MOST_MEGABYTES_AN_HOUR = 0.5
const MOST_NODES_AN_HOUR = 100
/** A figure that is no longer zero has some, too, and the dialog after an hour. */
const MOST_LISTENERS_AN_HOUR = 10

interface Sample {
  minute: number
  heap: number
  nodes: number
  listeners: number
}

const { minutes } = parseArgs({ options: { minutes: { type: 'string', default: '60' } } }).values
const measured = await startMeasuredConsole(await filledDatabase(CERTIFICATES))
try {
  await watchOverview(measured, Number(minutes))
} finally {
  await measured.close()
}
process.exit()

async function watchOverview(shown: MeasuredConsole, lastMinute: number): Promise<void> {
  const { page, devtools } = await shown.openTab()
  let polls = 0
  page.on('response', (response) => {
    if (response.url().endsWith('/overview') && response.ok()) polls++
  })
  await page.goto(shown.url)
  await signInOn(page, shown)
  await page.locator('.figures').waitFor()
  await devtools.send('Performance.enable')
  const responder = await startResponder(shown.service.http01Port)
  const client = await registeredClient(shown.service.directoryUrl)
  const startedAt = performance.now()
  const samples: Sample[] = []
  for (let minute = 0; minute <= lastMinute; minute++) {
    await setTimeout(Math.max(0, startedAt + minute * SAMPLE_MS - performance.now()))
    await client.obtain([`minute-${minute}.test`], responder)
    await keepSignedIn(page, shown)
    const sample = { minute, ...(await weigh(devtools)) }
    samples.push(sample)
    console.log(
      `minute ${String(minute).padStart(3)}: ${(sample.heap / MEGABYTE).toFixed(2)} MB, ${sample.nodes} nodes, ` +
        `${sample.listeners} listeners, ${polls} replies`,
    )
  }
  await responder.close()
  tell(samples, polls, lastMinute)
}

/** As somebody who looks at it: a turn of the wheel keeps the session, and its end after an hour asks for the password. */
async function keepSignedIn(page: Page, shown: MeasuredConsole): Promise<void> {
  await page.mouse.move(400, 400)
  await page.mouse.wheel(0, 1)
  if ((await page.locator('dialog input[type=password]').count()) > 0) await signInOn(page, shown)
}

async function weigh(devtools: CDPSession): Promise<Omit<Sample, 'minute'>> {
  await devtools.send('HeapProfiler.collectGarbage')
  const { usedSize: heap } = await devtools.send('Runtime.getHeapUsage')
  const { metrics } = await devtools.send('Performance.getMetrics')
  const metric = (wanted: string) => metrics.find(({ name }) => name === wanted)?.value ?? Number.NaN
  return { heap, nodes: metric('Nodes'), listeners: metric('JSEventListeners') }
}

function tell(samples: readonly Sample[], polls: number, lastMinute: number): void {
  const counted = samples.filter(({ minute }) => minute >= lastMinute / 10)
  const [first, last] = [samples[0], samples.at(-1)] as [Sample, Sample]
  const anHour = (of: (sample: Sample) => number) => 60 * slope(counted.map((one) => [one.minute, of(one)]))
  report([
    { what: 'replies of the overview', value: polls, unit: '' },
    { what: 'heap, first', value: first.heap / MEGABYTE, unit: 'MB' },
    { what: 'heap, last', value: last.heap / MEGABYTE, unit: 'MB' },
    { what: 'heap, slope', value: anHour(({ heap }) => heap / MEGABYTE), unit: 'MB/h', most: MOST_MEGABYTES_AN_HOUR },
    { what: 'nodes, first', value: first.nodes, unit: '' },
    { what: 'nodes, last', value: last.nodes, unit: '' },
    { what: 'nodes, slope', value: anHour(({ nodes }) => nodes), unit: '/h', most: MOST_NODES_AN_HOUR },
    { what: 'listeners, first', value: first.listeners, unit: '' },
    { what: 'listeners, last', value: last.listeners, unit: '' },
    { what: 'listeners, slope', value: anHour(({ listeners }) => listeners), unit: '/h', most: MOST_LISTENERS_AN_HOUR },
  ])
}

/** Of the straight line with the least squares. */
function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(points.map(([at]) => at)), mean(points.map(([, value]) => value))]
  const over = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0)
  return over / points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
}
