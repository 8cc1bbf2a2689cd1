/** Debian's Chromium with the console of a test service: one browser and one service a test file. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Role } from '../../src/domain/administrator.ts'
import { adminRequest, createAdministrator } from '../support/admin.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
  ...['--disable-sync', '--no-first-run', '--disable-dev-shm-usage'],
]
/** On a machine that is busy with other tests. */
const PATIENCE_MS = 60_000
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const WIDE = { width: 1280, height: 800 }
export const NARROW = { width: 390, height: 780 }

export interface TabOptions extends BrowserContextOptions {
  /** Below `#`. */
  place?: string
}

export interface ConsoleTab {
  page: Page
  /** What the browser complained about: errors of scripts, and of the content security policy. */
  complaints: string[]
  close(): Promise<void>
}

export class ConsoleBrowser {
  readonly #browser: Browser
  readonly #service: TestService
  readonly passwords = new Map<Role, string>()

  private constructor(browser: Browser, service: TestService) {
    this.#browser = browser
    this.#service = service
  }

  /** With a user for each role: `ada` administers, `otto` audits. */
  static async start(service: TestService): Promise<ConsoleBrowser> {
    const browser = await chromium.launch({
      ...{ executablePath: '/usr/bin/chromium', args: FLAGS, timeout: PATIENCE_MS },
    })
    const made = new ConsoleBrowser(browser, service)
    for (const role of ['admin', 'auditor'] as const)
      made.passwords.set(role, await createAdministrator(service.database, USERS[role], role))
    return made
  }

  get url(): string {
    return `${this.#service.baseUrl}/api/console/`
  }

  /** A tab of a browser of its own, on the page for signing in. */
  async open({ place = '/', ...options }: TabOptions = {}): Promise<ConsoleTab> {
    const context = await this.#browser.newContext({ viewport: WIDE, ...options })
    context.setDefaultTimeout(PATIENCE_MS)
    const tab = watched(await context.newPage(), () => context.close())
    await tab.page.goto(`${this.url}#${place}`)
    return tab
  }

  /** A tab of somebody who has signed in. */
  async as(role: Role, { place = '/', ...options }: TabOptions = {}): Promise<ConsoleTab> {
    const context = await this.#browser.newContext({ viewport: WIDE, ...options })
    context.setDefaultTimeout(PATIENCE_MS)
    const body = { username: USERS[role], password: this.passwords.get(role) }
    const { json } = await adminRequest(this.#service.baseUrl, 'POST', '/auth/login', { body })
    const session = JSON.stringify({ ...json, endsAt: Date.now() + 3_600_000 })
    // Only at first: somebody else may sign in later.
    await context.addInitScript(
      `if (sessionStorage.length === 0) sessionStorage.setItem('chancery.session', ${JSON.stringify(session)})`,
    )
    const tab = watched(await context.newPage(), () => context.close())
    await tab.page.goto(`${this.url}#${place}`)
    await tab.page.locator('main h1').first().waitFor()
    return tab
  }

  close(): Promise<void> {
    return this.#browser.close()
  }
}

const USERS = { admin: 'ada', auditor: 'otto' } as const

function watched(page: Page, close: () => Promise<void>): ConsoleTab {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    // A refusal that a test asks for is no fault of the page.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text())
  })
  return { page, complaints, close }
}

/** The page has its figures. Not `waitForFunction`, which the page's policy forbids. */
export const settled = (page: Page): Promise<unknown> =>
  until('nothing is loading any more', async () => (await page.getByText('Loading …').count()) === 0)

/** WCAG 2.2 AA, as far as a program sees it. */
export async function assertAccessible(page: Page, what: string): Promise<void> {
  await page.evaluate(AXE)
  const found = (await page.evaluate(
    `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(({ violations }) =>
      violations.map(({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.map(({ html }) => html.slice(0, 200)).join(' | ')))`,
  )) as string[]
  assert.deepEqual(found, [], what)
}
