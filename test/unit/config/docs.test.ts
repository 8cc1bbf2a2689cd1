import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { renderEditorSchema, renderManual } from '../../../src/config/render.ts'

/** Seen from the compiled file. */
const read = (name: string) => readFileSync(new URL(`../../../../docs/${name}`, import.meta.url), 'utf8')

test('docs/configuration.md is what the schema renders to; npm run docs renews it', () =>
  assert.ok(read('configuration.md') === renderManual(), 'stale: run npm run docs'))

test('docs/configuration.schema.json is what the schema renders to; npm run docs renews it', () =>
  assert.ok(read('configuration.schema.json') === renderEditorSchema(), 'stale: run npm run docs'))

test('the manual does not depend on the machine', () => {
  assert.match(renderManual(), /`server\.workers` \| [^|]+ \| number of cores, at most 8 \|/)
  assert.ok(!('default' in JSON.parse(renderEditorSchema()).properties.server.properties.workers))
})
