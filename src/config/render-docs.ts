/** `npm run docs`: writes the manual of the configuration and the JSON Schema for editors. */

import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderEditorSchema, renderManual } from './render.ts'

/** Relative to the compiled file in `compiled/src/config`. */
const DOCS = new URL('../../../docs/', import.meta.url)

for (const [name, text] of [
  ['configuration.md', renderManual()],
  ['configuration.schema.json', renderEditorSchema()],
] as const) {
  writeFileSync(new URL(name, DOCS), text)
  console.log(`wrote ${fileURLToPath(new URL(name, DOCS))}`)
}
