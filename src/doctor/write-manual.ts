/** `npm run docs`: writes the table of checks into the manual. */

import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { withChecks } from './checks.ts'

/** Relative to the compiled file in `compiled/src/doctor`. */
const FILE = new URL('../../../docs/operations/doctor.md', import.meta.url)

writeFileSync(FILE, withChecks(readFileSync(FILE, 'utf8')))
console.log(`wrote ${fileURLToPath(FILE)}`)
