/** Debian's Chromium for the tests of the console: the shell without windows, which takes a third less CPU than the browser. */

import { type Browser, chromium } from 'playwright-core'

const PROGRAM = '/usr/bin/chromium-headless-shell'
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-dev-shm-usage',
]
/** For all that a page is waited for, on a machine that is busy with other tests. */
export const PATIENCE_MS = 60_000

export const launchChromium = (): Promise<Browser> =>
  chromium.launch({ executablePath: PROGRAM, args: FLAGS, timeout: PATIENCE_MS })
