/** What the tests of the console begin with: a service, and a browser whose tabs end with each test. */

import { after, afterEach, before } from 'node:test'
import { closeConnections } from '../support/acme-client.ts'
import { type Sql, sqlOn } from '../support/database.ts'
import type { TestService } from '../support/service.ts'
import { ConsoleBrowser, closeChromium } from './browser.ts'

// Here, so that it belongs to no suite and runs after the last file of the process.
after(closeChromium)

export interface ConsoleSuite {
  service: TestService
  browser: ConsoleBrowser
  sql: Sql
}

/** For the suite that it is called in. @param start such as `() => sharedService('console')` */
export function consoleOf(start: () => Promise<TestService>): ConsoleSuite {
  const at = { sql: sqlOn(() => at.service.database) } as ConsoleSuite
  before(async () => {
    at.service = await start()
    at.browser = await ConsoleBrowser.start(at.service)
  })
  endTabs(at)
  after(closeConnections)
  return at
}

/** After each test. A failed one says what its pages show; in no test the browser complains of a page. */
export function endTabs(at: Pick<ConsoleSuite, 'browser'>): void {
  afterEach(async (context) => {
    const { passed } = context as { passed?: boolean }
    if (passed === false && 'diagnostic' in context)
      for (const page of (await at.browser?.snapshots()) ?? []) context.diagnostic(`the page says: ${page}`)
    await at.browser?.closeTabs()
  })
}
