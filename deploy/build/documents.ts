/** The documents that are made from tables of the code. As a program (`npm run docs`) it writes them into the checkout. */

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Figures, renderFigures, renderSentence } from '../../bench/report/figures.ts'
import { renderAdminApi } from '../../src/admin/manual.ts'
import { renderEditorSchema, renderManual } from '../../src/config/render.ts'
import { withChecks } from '../../src/doctor/checks.ts'
import { GENERATED, renewed, withPart } from '../../src/events/kinds-manual.ts'
import { renderBoard } from '../../src/ops/board/render.ts'
import { withFolder, withRights } from './places.ts'

/** Seen from the compiled file in `compiled/deploy/build`. */
const ROOT = path.resolve(import.meta.dirname, '../../..')

const FIGURES = JSON.parse(readFileSync(path.join(ROOT, 'docs/benchmarks.json'), 'utf8')) as Figures

/** The text of each document, made from the text that it has. */
export const DOCUMENTS: Readonly<Record<string, (text: string) => string>> = {
  'docs/configuration.md': renderManual,
  'docs/configuration.schema.json': renderEditorSchema,
  'docs/admin-api.md': renderAdminApi,
  ...Object.fromEntries(
    Object.keys(GENERATED).map((name) => [`docs/${name}`, (text: string) => renewed(name, text)] as const),
  ),
  'docs/operations/doctor.md': withChecks,
  'docs/benchmarks.md': (text) => withPart(text, 'table', renderFigures(FIGURES)),
  'README.md': (text) => withPart(text, 'cost', renderSentence(FIGURES)),
  'deploy/grafana/chancery.json': renderBoard,
  'deploy/tmpfiles.d/chancery.conf': withFolder,
  'deploy/rights.conf': withRights,
}

if (process.argv[1] === import.meta.filename)
  for (const [name, render] of Object.entries(DOCUMENTS)) {
    const file = path.join(ROOT, name)
    writeFileSync(file, render(readFileSync(file, 'utf8')))
    console.log(`wrote ${name}`)
  }
