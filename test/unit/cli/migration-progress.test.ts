/** What `db migrate` shows while it works. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { showProgress } from '../../../src/cli/printing.ts'

function written(isTTY: boolean, columns: number): string {
  let text = ''
  const report = showProgress({ isTTY, columns, write: (more) => (text += more) })
  report('a.sql: begun', true)
  report('a.sql: scanning 10 %', true)
  report('applied a.sql', false)
  report('b.sql: begun', true)
  report('applied b.sql', false)
  return text
}

test('on a terminal a sentence that passes is replaced, and cut to the width; elsewhere few of them are lines', () => {
  const clear = '\r\u001b[K'
  assert.equal(
    written(true, 11),
    `${clear}a.sql: beg${clear}a.sql: sca${clear}applied a.sql\n${clear}b.sql: beg${clear}applied b.sql\n`,
  )
  assert.equal(written(false, 80), 'a.sql: begun\napplied a.sql\napplied b.sql\n')
})
