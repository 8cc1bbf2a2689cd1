/** The tables of docs/decisions/decisions-outlive-the-database.md have every act, endpoint and command: a new one needs a row. */

import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { HOST_COMMANDS } from '../../src/cli/host/host-commands.ts'
import { AUDIT_ACTIONS } from '../../src/domain/audit-chain.ts'
import { ACME_ACTS, type Act, EFFECTS, effectOf } from '../../src/domain/decision.ts'

/** Seen from the compiled file. */
const ROOT = path.resolve(import.meta.dirname, '../../..')
const page = readFileSync(path.join(ROOT, 'docs/decisions/decisions-outlive-the-database.md'), 'utf8')
const ACTS: readonly string[] = [...AUDIT_ACTIONS, ...ACME_ACTS]

/** Cells of the rows below a heading, without backquotes around the first. */
function table(heading: string): string[][] {
  const section = page.split(/^## /m).find((text) => text.startsWith(heading)) ?? ''
  const rows = section.split('\n').filter((line) => line.startsWith('| `'))
  return rows
    .map((line) => line.slice(2, -2).split(' | '))
    .map(([first = '', ...cells]) => [first.replaceAll('`', ''), ...cells])
}

const effectText = (act: Act): string =>
  typeof EFFECTS[act] === 'function' ? `restricts, else ${effectOf({ act, details: {} })}` : EFFECTS[act]

describe('the page of decisions', () => {
  test('has each act with its effect, in the order of their lists', () => {
    assert.deepEqual(
      table('Acts').map(([act, effect]) => [act, effect]),
      ACTS.map((act) => [act, effectText(act as Act)]),
    )
  })

  test('says of each act where it is recorded, what a fail-over does, and which test shows it', () => {
    for (const [act, effect, recorded, does, shown] of table('Acts')) {
      assert.match(
        recorded ?? '',
        act?.startsWith('acme.') ? /^record: `(?:account_id|spki_sha256|serial_number)`/ : /^audit log and record/,
        act,
      )
      assert.ok(does, act)
      assert.equal(shown, effect?.startsWith('restricts') ? 'restores' : 'page', act)
    }
    for (const [file] of page.matchAll(/(?<=`)test\/[\w/.-]+(?=`)/g)) assert.ok(existsSync(path.join(ROOT, file)), file)
  })

  const saysWhatItLeaves = ([thing, acts = '']: string[]) => {
    const named = [...acts.matchAll(/`([a-z_.]+)`/g)].map(([, act]) => act as string)
    if (acts.startsWith('none: ')) return []
    assert.ok(named.length > 0, thing)
    assert.deepEqual(
      named.filter((act) => !ACTS.includes(act)),
      [],
      thing,
    )
    return named
  }

  test('names what each endpoint that changes something leaves, or why it leaves nothing', () => {
    const rows = table('Endpoints')
    const changing = ENDPOINTS.filter(({ method }) => method !== 'GET')
    assert.deepEqual(
      rows.map(([route]) => route),
      changing.map(({ method, path: route }) => `${method} ${route}`),
    )
    for (const [place, row] of rows.entries()) {
      const { audit, id } = changing[place] ?? {}
      const named = saysWhatItLeaves(row)
      assert.ok(audit === undefined ? named.length === 0 : named.includes(audit), id)
    }
  })

  test('names what each command of the host leaves, or why it leaves nothing', () => {
    const rows = table('Commands')
    assert.deepEqual(
      rows.map(([usage]) => usage),
      HOST_COMMANDS.map(({ usage }) => usage.replaceAll(/ <[^>]+>/g, '')),
    )
    for (const row of rows) saysWhatItLeaves(row)
  })
})
