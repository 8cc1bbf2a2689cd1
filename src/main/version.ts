/** The version in package.json. */

import { readFileSync } from 'node:fs'

/** The compiled file is in dist/src/main. */
export const VERSION: string = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
).version
