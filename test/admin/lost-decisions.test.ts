/** What a fail-over has lost of people's decisions: over HTTP, and from the command line. */

import assert from 'node:assert/strict'
import { userInfo } from 'node:os'
import { before, describe, test } from 'node:test'
import type { Outcome } from '../../src/domain/decision.ts'
import { openDatabase } from '../../src/store/database.ts'
import { createDecisionStore } from '../../src/store/decision-store.ts'
import { settingsFor } from '../store/support.ts'
import { administered } from '../support/administered.ts'
import { each } from '../support/each.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

const ID = (last: number) => `0199a4f2-0b11-7c44-8d5e-6f7a8b9c0d0${last}`

describe('lost decisions', () => {
  const { service, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  const registrar = as('rita', 'registrar', ['team'])
  before(async () => {
    const db = openDatabase(settingsFor(service.database.connection, 1), () => undefined)
    const lost = (last: number, outcome: Outcome, act: 'user.create' | 'signing.stop' | 'acme.new_account') => ({
      decision: {
        id: ID(last),
        at: `2026-03-01T21:04:1${last}.000Z`,
        act,
        by: 'alice',
        details: { username: `thing ${last}` },
      },
      outcome,
    })
    const decisions = createDecisionStore(db)
    await decisions.noteLost([lost(1, 'lost', 'user.create'), lost(2, 'restored', 'signing.stop')], null)
    await decisions.noteLost([lost(3, 'lost', 'acme.new_account'), lost(4, 'partly', 'user.create')], null)
    await db.close()
  })

  const listed = async (query = '') =>
    each((await auditor.get(`/lost-decisions${query}`)).json as { subject: string }[], 'subject')

  test('are listed with time, who, what and outcome, those found last first, to whoever reads the audit log', async () => {
    const [first] = (await auditor.get('/lost-decisions')).json
    const { found_at: foundAt, ...rest } = first
    assert.ok(Date.parse(foundAt) <= Date.now())
    assert.deepEqual(rest, {
      id: ID(3),
      decided_at: '2026-03-01T21:04:13.000Z',
      decided_by: 'alice',
      act: 'acme.new_account',
      subject: 'thing 3',
      outcome: 'lost',
      details: { username: 'thing 3' },
      accepted_at: null,
    })
    assert.deepEqual(await listed(), ['thing 3', 'thing 4', 'thing 1', 'thing 2'])
    assert.equal((await registrar.get('/lost-decisions')).status, 403)
  })

  test('are found by outcome and by whether they are accepted, page by page', async () => {
    assert.deepEqual(await listed('?outcome=lost'), ['thing 3', 'thing 1'])
    assert.deepEqual(await listed('?accepted=true'), [])
    assert.deepEqual(await listed('?accepted=false&limit=1&offset=2'), ['thing 1'])
    assert.equal((await auditor.get('/lost-decisions?outcome=gone')).status, 400)
  })

  test('are told by a command with what to do, without the signer; exit code 1 until they are accepted', async () => {
    const { code, stdout } = await chancery(service, 'reconcile', '--lost')
    assert.equal(code, 1)
    assert.deepEqual(stdout.trimEnd().split('\n'), [
      'These acts are lost. Repeat what you still want.',
      '2026-03-01 21:04:11 UTC, User: create, thing 1, by alice',
      '2026-03-01 21:04:13 UTC, ACME client: new account, thing 3, by alice',
      '',
      'Of these acts what restricts is back, and what permits is lost. Repeat what you still want.',
      '2026-03-01 21:04:14 UTC, User: create, thing 4, by alice',
      '',
      'These acts are back. Nothing is to be done.',
      '2026-03-01 21:04:12 UTC, Signing: stop, thing 2, by alice',
      '',
      'When nothing more is to be done: chancery reconcile --lost --accept-lost',
    ])
    const json = await chancery(service, 'reconcile', '--lost', '--json')
    const { decisions, more, lost } = JSON.parse(json.stdout)
    assert.deepEqual([json.code, more, lost], [1, false, []])
    assert.deepEqual(decisions, (await auditor.get('/lost-decisions')).json)
  })

  test('are an alarm of the overview until somebody accepts them, whom the audit log names', async () => {
    const alarms = async () =>
      (await auditor.get('/overview')).json.alarms.filter(({ code }: { code: string }) => code === 'lost_decisions')
    assert.deepEqual(await alarms(), [
      {
        severity: 'error',
        code: 'lost_decisions',
        message: 'a fail-over has lost 3 acts: repeat what you still want',
      },
    ])
    assert.equal((await auditor.send('POST', '/lost-decisions/accept')).status, 403)
    const accept = async (body?: object) => (await admin.send('POST', '/lost-decisions/accept', body)).json
    assert.deepEqual(await accept({ ids: [ID(1), ID(2)] }), { accepted: 2 })
    assert.deepEqual(await listed('?accepted=false'), ['thing 3', 'thing 4'])
    assert.deepEqual(await accept({ ids: [ID(4)] }), { accepted: 1 })
    assert.deepEqual(await accept({ ids: [ID(4)] }), { accepted: 0 })
    await operate(service, 'reconcile', '--lost', '--accept-lost')
    assert.match(await operate(service, 'reconcile', '--lost'), /^Nothing that a fail-over has lost is left/)
    assert.deepEqual(await accept(), { accepted: 0 })
    const entries: { details: object }[] = (await admin.get('/audit-log?action=database.accept_lost')).json
    assert.deepEqual(each(entries, 'details'), [
      { accepted: 1, operator: userInfo().username },
      { accepted: 1, ids: [ID(4)] },
      { accepted: 2, ids: [ID(1), ID(2)] },
    ])
    assert.equal((await admin.send('POST', '/lost-decisions/accept', { ids: [] })).status, 400)
  })
})
