/** `npm run docs`: writes what the manual says of each kind of event. */

import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { GENERATED, renewed } from './kinds-manual.ts'

/** Relative to the compiled file in `compiled/src/events`. */
const DOCS = new URL('../../../docs/', import.meta.url)

for (const name of Object.keys(GENERATED)) {
  const file = new URL(name, DOCS)
  writeFileSync(file, renewed(name, readFileSync(file, 'utf8')))
  console.log(`wrote ${fileURLToPath(file)}`)
}
