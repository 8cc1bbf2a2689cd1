/** `npm run docs`: writes the Grafana board. */

import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderBoard } from './render.ts'

/** Relative to the compiled file in `compiled/src/ops/board`. */
const FILE = new URL('../../../../deploy/grafana/chancery.json', import.meta.url)

writeFileSync(FILE, renderBoard())
console.log(`wrote ${fileURLToPath(FILE)}`)
