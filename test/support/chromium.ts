/** Debian's Chromium for the tests of the console: the shell without windows, which takes a third less CPU than the browser. */

import { type Browser, chromium } from 'playwright-core'
import { WAIT_MS } from './patience.ts'
import { noted } from './run/used-parts.ts'
import { words } from './words.ts'

const PROGRAM = '/usr/bin/chromium-headless-shell'
const FLAGS = words`
  --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run
  --disable-dev-shm-usage
`

export const launchChromium = (): Promise<Browser> =>
  noted('browser', () => chromium.launch({ executablePath: PROGRAM, args: FLAGS, timeout: WAIT_MS }))
