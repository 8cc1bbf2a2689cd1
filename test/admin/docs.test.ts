import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { renderAdminApi } from '../../src/admin/manual.ts'

/** Seen from the compiled file. */
const manual = readFileSync(new URL('../../../docs/admin-api.md', import.meta.url), 'utf8')

test('docs/admin-api.md is what the descriptions render to; npm run docs renews it', () => {
  assert.ok(manual === renderAdminApi(), 'stale: run npm run docs')
})

test('the manual has a row for every endpoint, and an object for every name that it links to', () => {
  for (const { method, path } of ENDPOINTS) assert.ok(manual.includes(`\n| \`${method} ${path || '/'}\` `), path)
  for (const [, name] of manual.matchAll(/\]\(#([a-z]+)\)/g)) assert.match(manual, new RegExp(`^### ${name}$`, 'im'))
})
