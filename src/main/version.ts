/** The release this is, from package.json. */

import { readFileSync } from 'node:fs'

/** Compiled code lies in dist/src/main. */
export const VERSION: string = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version
