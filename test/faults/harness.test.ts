/**
 * `npm run faults`: a promotion that loses acts, and damaged records, within two minutes. With `CHANCERY_NIGHTLY=1` a thousand
 * faults in ten hours (docs/faults.md).
 */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import type { FaultsDocument } from '../../bench/faults/document.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PROGRAM = path.resolve(import.meta.dirname, '../../bench/faults/main.js')
const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
const KINDS = 'promote-asynchronous,damage-current-records'
const [FAULTS, WORDS, HOURS] = IS_NIGHTLY
  ? [1000, ['--duration', '10h'], 10]
  : [2, ['--duration', '40s', '--kinds', KINDS, '--clients', '2', '--rate', '1'], 0.2]

test('nothing is lost, doubled, stuck, undone, untold, unseen or answered with 500, and each fault is recovered from', {
  ...requireCommand('haproxy'),
}, async () => {
  const folder = temporaryFolder()
  const file = path.join(folder, 'faults.json')
  const words = ['--seed', '1', '--faults', String(FAULTS), ...WORDS, '--json', file]
  console.log(await mustRun(process.execPath, [PROGRAM, ...words], { timeoutMs: 2 * HOURS * 3_600_000 }))
  const { total, faults, books, acts } = JSON.parse(readFileSync(file, 'utf8')) as FaultsDocument
  assert.deepEqual(total, { lost: 0, doubled: 0, stuck: 0, error: 0, undone: 0, untold: 0, unseen: 0 })
  assert.equal(faults.length, FAULTS)
  assert.ok(books.certificates > 0 && books.revoked > 0)
  assert.ok(acts && acts.restored > 0, 'the promotion lost a stop of signing, which came back')
})
