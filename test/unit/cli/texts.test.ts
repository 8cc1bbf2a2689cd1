/** Replies of the Admin API in words. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { workersText } from '../../../src/cli/admin/reply-texts.ts'

const MINUTE_MS = 60_000
const at = (minutes: number) => new Date(Date.now() + minutes * MINUTE_MS).toISOString()
const task = (next: string) => ({
  name: 'expiration_warnings',
  leader: 7,
  leader_is_alive: true,
  last_run: at(-60),
  next_run: next,
  errors: 0,
  last_error: null,
  failed_at: null,
})
const said = (next: string) => workersText({ tasks: [task(next)], consumers: [] })

test('a task that no instance runs any more is due since its last next run', () => {
  assert.match(said(at(5)), / next 2/)
  // A run is reported some seconds after its end.
  assert.match(said(at(-0.5)), / next 2/)
  assert.match(said(at(-5)), / due since 2/)
})
