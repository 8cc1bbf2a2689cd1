/** `npm run docs`: writes the manual of the Admin API. */

import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderAdminApi } from './manual.ts'

/** Relative to the compiled file in `compiled/src/admin`. */
const FILE = new URL('../../../docs/admin-api.md', import.meta.url)

writeFileSync(FILE, renderAdminApi())
console.log(`wrote ${fileURLToPath(FILE)}`)
