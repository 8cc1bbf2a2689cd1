/** What `src/dev/build.mjs` leaves in `dist`. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const DIST = path.resolve(import.meta.dirname, '../../../dist')

test('no bundle has a character above U+00FF, for which V8 would keep all of it at two bytes a character', () => {
  const names = ['chunks', 'signer', 'src', 'workers'].flatMap((folder) =>
    readdirSync(path.join(DIST, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)),
  )
  const bundles = names.filter((name) => /\.c?js$/.test(name))
  assert.ok(bundles.length > 10)
  const wide = bundles.filter((name) => /[^\0-\xff]/.test(readFileSync(path.join(DIST, name), 'utf8')))
  assert.deepEqual(wide, [])
})
