/** `npm run faults` with a thousand faults (docs/faults.md), for `CHANCERY_NIGHTLY=1` alone: it takes ten hours. */

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import type { FaultsDocument } from '../../bench/faults/document.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'

const PROGRAM = path.resolve(import.meta.dirname, '../../bench/faults/main.js')
const FAULTS = 1000
const HOURS = 10

if (process.env['CHANCERY_NIGHTLY'] === '1')
  test('nothing is lost, doubled, stuck or answered with 500, and each fault is recovered from', {
    ...requireCommand('haproxy'),
  }, async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-harness-'))
    const file = path.join(folder, 'faults.json')
    const words = ['--seed', '1', '--faults', String(FAULTS), '--duration', `${HOURS}h`, '--json', file]
    console.log(await mustRun(process.execPath, [PROGRAM, ...words], { timeoutMs: 2 * HOURS * 3_600_000 }))
    const { total, faults, books } = JSON.parse(readFileSync(file, 'utf8')) as FaultsDocument
    rmSync(folder, { recursive: true })
    assert.deepEqual(total, { lost: 0, doubled: 0, stuck: 0, error: 0 })
    assert.equal(faults.length, FAULTS)
    assert.ok(books.certificates > 0 && books.revoked > 0)
  })
