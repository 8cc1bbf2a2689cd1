/** The documents that `npm run docs` writes are as they would be written now, and what is written of tables has every row. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { withFolder, withRights } from '../../deploy/build/places.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { renderAdminApi } from '../../src/admin/manual.ts'
import { renderEditorSchema, renderManual } from '../../src/config/render.ts'
import { withChecks } from '../../src/doctor/checks.ts'
import { GENERATED, renewed } from '../../src/events/kinds-manual.ts'
import { renderBoard } from '../../src/ops/board/render.ts'
import { QUESTIONS } from '../../src/setup/questions.ts'

/** Seen from the compiled file. */
const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8')

/** What a document would be, from what it is. */
const RENDERED: Record<string, (text: string) => string> = {
  'docs/configuration.md': renderManual,
  'docs/configuration.schema.json': renderEditorSchema,
  'docs/admin-api.md': renderAdminApi,
  'docs/operations/doctor.md': withChecks,
  'deploy/grafana/chancery.json': renderBoard,
  'deploy/tmpfiles.d/chancery.conf': withFolder,
  'deploy/rights.conf': withRights,
}
for (const name of Object.keys(GENERATED)) RENDERED[`docs/${name}`] = (text) => renewed(name, text)

for (const [name, render] of Object.entries(RENDERED))
  test(`${name} is what its tables render to; npm run docs renews it`, () => {
    const text = read(name)
    assert.ok(text === render(text), 'stale: run npm run docs')
  })

test('the manual of the configuration does not depend on the machine', () => {
  assert.match(renderManual(), /`server\.workers` \| [^|]+ \| number of cores, at most 8 \|/)
  assert.ok(!('default' in JSON.parse(renderEditorSchema()).properties.server.properties.workers))
})

test('that of the Admin API has a row for every endpoint, and an object for every name that it links to', () => {
  const manual = renderAdminApi()
  for (const { method, path } of ENDPOINTS) assert.ok(manual.includes(`\n| \`${method} ${path || '/'}\` `), path)
  for (const [, name] of manual.matchAll(/\]\(#([a-z]+)\)/g)) assert.match(manual, new RegExp(`^### ${name}$`, 'im'))
})

test('that of chancery setup has each key of a file of answers, with its question and choices, in their order', () => {
  const rows = read('docs/operations/setup.md').matchAll(/^\| `(\w+)`( 🔒)? \| ([^|]+) \|/gm)
  const table = [...rows].filter(([, key]) => QUESTIONS.some((one) => one.key === key))
  const wanted = QUESTIONS.map(({ key, text, takes, isSecret }) => {
    const words = Object.keys(takes.choices ?? {}).map((word) => `\`${word}\``)
    return `${key}${isSecret ? ' 🔒' : ''}: ${[text, words.join(', ')].filter((part) => part !== '').join(' ')}`
  })
  const found = table.map(([, key, mark = '', text]) => `${key}${mark}: ${text}`)
  assert.deepEqual(found, wanted)
})
