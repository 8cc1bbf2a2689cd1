/** What the scripts `console-*.ts` share: a browser at the console of a service, and a table of figures with their goals. */

import type { CDPSession, Page } from 'playwright-core'
import { adminConfig, createAdministrator } from '../support/admin.ts'
import { launchChromium } from '../support/chromium.ts'
import type { TestDatabase } from '../support/database.ts'
import { WAIT_MS } from '../support/patience.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { loadAverage } from './figures.ts'

const VIEWPORT = { width: 1280, height: 800 }

export interface MeasuredTab {
  page: Page
  /** Chrome DevTools Protocol. */
  devtools: CDPSession
  close(): Promise<void>
}

export interface MeasuredConsole {
  service: TestService
  url: string
  username: string
  password: string
  /** Of a browser profile of its own: nothing is cached, nobody is signed in. */
  openTab(): Promise<MeasuredTab>
  close(): Promise<void>
}

export async function startMeasuredConsole(database: TestDatabase): Promise<MeasuredConsole> {
  const service = await startTestService({ database, config: adminConfig({ token_expiry_seconds: 3600 }) })
  // A database that is kept has the users of former runs.
  const username = `reader-${Date.now()}`
  const password = await createAdministrator(database, username)
  const browser = await launchChromium()
  return {
    service,
    username,
    password,
    url: `${service.baseUrl}/api/console/`,
    async openTab() {
      const context = await browser.newContext({ viewport: VIEWPORT })
      context.setDefaultTimeout(WAIT_MS)
      const page = await context.newPage()
      page.on('pageerror', (error) => {
        console.error(error.message)
        process.exitCode = 1
      })
      return { page, devtools: await context.newCDPSession(page), close: () => context.close() }
    },
    async close() {
      await browser.close()
      await service.dispose()
    },
  }
}

/** On the page for signing in, or in the dialog over the page. */
export async function signInOn(
  page: Page,
  { username, password }: Pick<MeasuredConsole, 'username' | 'password'>,
): Promise<void> {
  await page.locator('input[autocomplete=username]').fill(username)
  await page.locator('input[type=password]').fill(password)
  await page.locator('form button[type=submit]').last().click()
}

/** Processor time of the page's main thread so far, in milliseconds: what else runs on the machine does not count. */
export async function mainThreadMs(devtools: CDPSession): Promise<number> {
  // Again and again, as nothing happens when it is enabled.
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const { metrics } = await devtools.send('Performance.getMetrics')
  return (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN) * 1000
}

export interface Figure {
  what: string
  value: number
  unit: string
  /** The goal; a figure without one is told only. */
  most?: number
}

/** Prints them; the process ends with 1 when a goal is missed. */
export function report(figures: readonly Figure[]): void {
  console.log()
  for (const { what, value, unit, most } of figures) {
    const isGood = most === undefined || value <= most
    if (!isGood) process.exitCode = 1
    const goal = most === undefined ? '' : `at most ${most}   ${isGood ? 'met' : 'MISSED'}`
    const digits = Number.isInteger(value) ? 0 : value < 10 ? 2 : 1
    console.log(`${what.padEnd(58)}${value.toFixed(digits).padStart(10)} ${unit.padEnd(8)}${goal}`)
  }
  console.log(`\n${loadAverage()}`)
}
