/** Debian's Chromium with the console of a test service: one browser a process, and a context for each tab. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import type { Role } from '../../src/domain/administrator.ts'
import { adminRequest, createAdministrator } from '../support/admin.ts'
import { launchChromium } from '../support/chromium.ts'
import { rowsIn } from '../support/database.ts'
import { WAIT_MS } from '../support/patience.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const RULES = {
  all: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  /** What a width or a colour scheme decides: enough for a page that was seen in another look. */
  looks: {
    type: 'rule',
    values: ['color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable'],
  },
  /** What a page is made of: enough for a role whose page has less than that of another. */
  structure: {
    type: 'rule',
    values: (
      'aria-allowed-attr aria-required-children button-name duplicate-id-aria empty-heading empty-table-header ' +
      'heading-order label landmark-unique link-name list listitem region th-has-data-cells'
    ).split(' '),
  },
}

export type Rules = keyof typeof RULES

export const WIDE = { width: 1280, height: 800 }
export const NARROW = { width: 390, height: 780 }

export interface TabOptions extends BrowserContextOptions {
  /** Below `#`. */
  place?: string
  /** `page.clock` can then jump. */
  hasClock?: boolean
}

export interface ConsoleTab {
  page: Page
  /** The browser's complaints: errors of scripts, and of the content security policy. */
  complaints: string[]
}

const USERS: Readonly<Record<Role, string>> = { admin: 'ada', operator: 'olga', registrar: 'rita', auditor: 'otto' }

let launched: Promise<Browser> | undefined

/** At the end of the process. */
export const closeChromium = async (): Promise<void> => (await launched)?.close()

type Service = Pick<TestService, 'baseUrl' | 'database'>

export class ConsoleBrowser {
  readonly #browser: Browser
  readonly #service: Service
  readonly passwords = new Map<Role, string>()
  readonly #tabs = new Map<BrowserContext, ConsoleTab>()

  private constructor(browser: Browser, service: Service) {
    this.#browser = browser
    this.#service = service
  }

  /** With a user for each role: `ada` administers, `otto` audits. */
  static async start(service: Service): Promise<ConsoleBrowser> {
    launched ??= launchChromium()
    const started = new ConsoleBrowser(await launched, service)
    const password = await createAdministrator(service.database, USERS.admin)
    for (const [role, username] of Object.entries(USERS)) {
      started.passwords.set(role as Role, password)
      // A hash takes time on purpose.
      await rowsIn(
        service.database,
        `INSERT INTO admin_users (id, username, email, role, scope, password_hash)
         SELECT gen_random_uuid(), $1, $1 || '@example.com', $2, $3, password_hash FROM admin_users WHERE username = 'ada'
         ON CONFLICT DO NOTHING`,
        [username, role, role === 'registrar' ? ['team'] : []],
      )
    }
    return started
  }

  get url(): string {
    return `${this.#service.baseUrl}/api/console/`
  }

  /** A tab of a browser of its own, on the page for signing in. */
  async open(options: string | TabOptions = {}): Promise<ConsoleTab> {
    const { place = '/', ...ofContext } = typeof options === 'string' ? { place: options } : options
    const context = await this.#context(ofContext)
    return this.#show(context, place)
  }

  /** A tab of somebody who has signed in. */
  async as(role: Role, options: string | TabOptions = {}): Promise<ConsoleTab> {
    const { place = '/', hasClock, ...ofContext } = typeof options === 'string' ? { place: options } : options
    const context = await this.#context(ofContext)
    if (hasClock) await context.clock.install()
    const body = { username: USERS[role], password: this.passwords.get(role) }
    const { json } = await adminRequest(this.#service.baseUrl, 'POST', '/auth/login', { body })
    const session = JSON.stringify({ ...json, endsAt: Date.now() + 3_600_000 })
    // Only at first: somebody else may sign in later.
    await context.addInitScript(
      `if (sessionStorage.length === 0) sessionStorage.setItem('chancery.session', ${JSON.stringify(session)})`,
    )
    const tab = await this.#show(context, place)
    await tab.page.locator('main h1').first().waitFor()
    return tab
  }

  /** Closes all tabs. @throws AssertionError when the browser complained of one */
  async closeTabs(): Promise<void> {
    const complaints = [...this.#tabs.values()].flatMap((tab) => tab.complaints)
    const contexts = [...this.#tabs.keys()]
    this.#tabs.clear()
    await Promise.all(contexts.map((context) => context.close()))
    assert.deepEqual(complaints, [])
  }

  /** What the tabs show. */
  snapshots(): Promise<string[]> {
    return Promise.all([...this.#tabs.values()].map(({ page }) => page.locator('body').ariaSnapshot()))
  }

  async #context(options: BrowserContextOptions): Promise<BrowserContext> {
    const context = await this.#browser.newContext({ viewport: WIDE, reducedMotion: 'reduce', ...options })
    context.setDefaultTimeout(WAIT_MS)
    return context
  }

  async #show(context: BrowserContext, place: string): Promise<ConsoleTab> {
    const tab = watched(await context.newPage())
    this.#tabs.set(context, tab)
    await tab.page.goto(`${this.url}#${place}`)
    return tab
  }
}

function watched(page: Page): ConsoleTab {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    // A refusal that a test asks for is no fault of the page.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text())
  })
  return { page, complaints }
}

/** The page has its figures. Not `waitForFunction`, which the page's policy forbids. */
export const settled = (page: Page): Promise<unknown> =>
  until('nothing is loading any more', async () => (await page.getByText('Loading …').count()) === 0)

/** Marks the heading. A page of another path draws one of its own. */
const GO = (place: string) => `{
  const isSamePath = location.hash.split('?')[0] === ${JSON.stringify(`#${place}`)}.split('?')[0]
  const heading = document.querySelector('main h1')
  if (heading !== null && !isSamePath) heading.isLeft = true
  location.hash = ${JSON.stringify(place)}
}`

/** What an event has caused is in the page. */
export const drawn = (page: Page): Promise<unknown> =>
  page.evaluate('new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50)))')

/** Another page in the same tab, with its figures. */
export async function visit(page: Page, place: string): Promise<void> {
  await page.evaluate(GO(place))
  await drawn(page)
  const isDrawn = `{ const heading = document.querySelector('main h1'); heading !== null && heading.isLeft !== true }`
  await until(`${place} is drawn`, () => page.evaluate(isDrawn).then(Boolean))
  await settled(page)
}

/** The first button of this name, of a page or a part of it. */
export const press = (where: Page | Locator, name: string): Promise<void> =>
  where.getByRole('button', { name, exact: true }).first().click()

/** In the dialog over the page: fills fields by their labels, and presses its button. */
export async function confirm(page: Page, name: string, fields: Readonly<Record<string, string>> = {}): Promise<void> {
  const dialog = page.getByRole('dialog')
  for (const [label, text] of Object.entries(fields)) await dialog.getByLabel(label).fill(text)
  await press(dialog, name)
}

/** Presses a button, and the one of the dialog that it opens. */
export async function carryOut(
  page: Page,
  button: string,
  confirmation = button,
  fields?: Readonly<Record<string, string>>,
): Promise<void> {
  await press(page, button)
  await confirm(page, confirmation, fields)
}

/** The text of the file that a button gives. */
export async function saved(page: Page, name: string): Promise<string> {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()])
  return readFileSync((await download.path()) ?? '', 'utf8')
}

/** On the form of a page or a dialog. */
export async function signInOn(where: Page | Locator, username: string, password: string): Promise<void> {
  await where.getByLabel('Username').fill(username)
  await where.getByLabel('Password').fill(password)
  await press(where, 'Sign in')
}

/** Parts of texts. */
export async function sees(where: Page | Locator, ...texts: readonly string[]): Promise<void> {
  for (const text of texts) await where.getByText(text, { exact: false }).first().waitFor()
}

/** The search has a hit with the text that was typed. On a busy machine it may be late; then the text is typed again. */
export async function found(page: Page, text: string): Promise<void> {
  const hit = page.getByRole('listbox', { name: 'Hits' }).getByRole('option').filter({ hasText: text }).first()
  const late = page.getByText('It took longer than', { exact: false }).first()
  await until(`hits for ${text}`, async () => {
    await hit.or(late).first().waitFor()
    if ((await hit.count()) > 0) return true
    const field = page.getByRole('combobox', { name: 'Search everything' })
    await field.fill('')
    await field.fill(text)
    return false
  })
}

/** Waits for a value: the page draws after the event that a test caused. */
export async function becomes<T>(read: () => Promise<T>, expected: T): Promise<void> {
  await until(`${expected}`, async () => (await read()) === expected).catch(async () =>
    assert.equal(await read(), expected),
  )
}

/** WCAG 2.2 AA, as far as a program sees it. */
export async function assertAccessible(page: Page, what: string, rules: Rules = 'all', isWhole = false): Promise<void> {
  // Describing what is in order takes most of the time.
  const options = { runOnly: RULES[rules], resultTypes: ['violations'] }
  // The navigation is the same on every page.
  const where = { include: [['html']], exclude: isWhole ? [] : [['nav']] }
  if (!(await page.evaluate(`'axe' in window`))) await page.evaluate(AXE)
  const found = (await page.evaluate(
    `axe.run(${JSON.stringify(where)}, ${JSON.stringify(options)}).then(({ violations }) =>
      violations.map(({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.map(({ html }) => html.slice(0, 200)).join(' | ')))`,
  )) as string[]
  assert.deepEqual(found, [], what)
}

export const hasFocus = async (target: Locator): Promise<boolean> =>
  (await target.and(target.page().locator(':focus')).count()) === 1

/** More than a page has stops. */
const MOST_STOPS = 120
/** The focus of a heading is for screen readers: no key does anything there. */
const SHOWS_FOCUS = `(() => {
  const one = document.activeElement
  const { top, bottom } = one.getBoundingClientRect()
  const { outlineStyle, outlineWidth } = getComputedStyle(one)
  const isSeen = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && bottom > 0 && top < innerHeight
  return isSeen || one.outerHTML.slice(0, 200)
})()`

/** With the keyboard alone, from stop to stop, of which each has to show that it has the focus. */
export async function reach(page: Page, target: Locator, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  for (let stop = 0; stop < MOST_STOPS; stop++) {
    await page.keyboard.press(key)
    assert.equal(await page.evaluate(SHOWS_FOCUS), true)
    if (await hasFocus(target)) return
  }
  assert.fail(`${key} never comes to ${target}`)
}
