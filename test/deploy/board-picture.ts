/**
 * The picture of docs/operations/board.md, by hand: `node compiled/test/deploy/board-picture.js docs/operations/board.png [SECONDS]`.
 * Each panel is drawn from what its queries give of a service under load, otherwise than by Grafana.
 */

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Panel, ROWS } from '../../src/ops/board/panels.ts'
import { withPalette } from '../console/palette.ts'
import { launchChromium } from '../support/chromium.ts'
import { type ObservedService, startObservedService } from '../support/observed-service.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const STEP_SECONDS = 5
const [file, seconds = '180'] = process.argv.slice(2)
if (file === undefined) throw new Error('usage: board-picture.js FILE [SECONDS]')

interface Drawn {
  title: string
  unit: string
  isNumber: boolean
  lines: { label: string; points: [number, number][] }[]
}

async function drawn(observed: ObservedService, { title, unit, isNumber, queries }: Panel): Promise<Drawn> {
  const lines = await Promise.all(
    queries.map(async ([expr, legend]) =>
      (await observed.ask(expr, Number(seconds), STEP_SECONDS)).map(({ metric, values }) => ({
        label: legend.replaceAll(/\{\{(\w+)\}\}/g, (_, name) =>
          name === 'instance' ? 'instance 1' : (metric[name] ?? ''),
        ),
        points: values.map(([at, value]): [number, number] => [at, Number(value)]),
      })),
    ),
  )
  return { title, unit, isNumber: isNumber === true, lines: lines.flat() }
}

async function page(observed: ObservedService): Promise<string> {
  const rows = await Promise.all(
    ROWS.map(async ({ title, panels }) => ({
      title,
      panels: await Promise.all(panels.map((one) => drawn(observed, one))),
    })),
  )
  const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
  const parts: Record<string, string> = {
    '/*{uplot.css}*/': read('node_modules/uplot/dist/uPlot.min.css'),
    '/*{uplot.js}*/': read('node_modules/uplot/dist/uPlot.iife.min.js'),
    '"{data}"': JSON.stringify(rows).replaceAll('<', '\\u003c'),
    '/*{board.js}*/': read('test/deploy/board-picture.js'),
  }
  return read('test/deploy/board-picture.html').replaceAll(
    /\/\*\{[\w.]+\}\*\/|"\{data\}"/g,
    (place) => parts[place] ?? place,
  )
}

const observed = await startObservedService()
try {
  await sleep(1_000 * Number(seconds))
  const browser = await launchChromium()
  const tab = await browser.newPage({ viewport: { width: 1440, height: 900 } })
  await tab.setContent(await page(observed))
  writeFileSync(file, withPalette(await tab.screenshot({ fullPage: true })))
  await browser.close()
} finally {
  await observed.dispose()
}
