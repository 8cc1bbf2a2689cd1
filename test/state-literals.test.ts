/** Statements take their statuses from the state tables of `src/domain`, through `src/store/status-sql.ts`. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import {
  ACCOUNT_STATUSES,
  AUTHORIZATION_STATUSES,
  CHALLENGE,
  ORDER_STATUSES,
  STORED_ORDER_STATUSES,
} from '../src/domain/states.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')

const STATUSES = new Set<string>([
  ...ACCOUNT_STATUSES,
  ...AUTHORIZATION_STATUSES,
  ...Object.keys(CHALLENGE),
  ...ORDER_STATUSES,
  ...STORED_ORDER_STATUSES,
])
const QUOTED = `['"](?:${[...STATUSES].join('|')})['"]`
/** A quoted status beside a word of SQL, which code does not have, or compared as SQL compares. */
const LITERAL = new RegExp(
  `\\b(?:SELECT|UPDATE|SET|FROM|WHERE|AND|OR|CASE|WHEN|THEN|ELSE|IN|ANY|ALL)\\b.*${QUOTED}|` +
    `(?<!(?:const|let) )\\bstatus *(?:=|<>) *${QUOTED}|${QUOTED}.*\\b(?:AND|OR|THEN|ELSE|END)\\b`,
)

/** Lines that name a status inside of SQL. Comments do not count, nor does code in `${}`, nor a comparison with `===`. */
function statusLiterals(file: string, text: string): string[] {
  const withoutCode = text.replace(/\$\{[^{}]*\}|[!=]== '\w+'/g, '').replace(/^ *(?:\/\/|\/?\*|--).*$/gm, '')
  return withoutCode.split('\n').flatMap((line, i) => (LITERAL.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : []))
}

/** Notifications and results of a bulk revocation have words of their own, which look like states of RFC 8555 §7.1.6. */
const OTHER_STATES = [
  'store/notification-store.ts',
  'admin/operation/notification-endpoints.ts',
  'admin/incidents/incident-store.ts',
  'admin/revocations/bulk-revocation-store.ts',
]

test('no statement names a status by itself', () => {
  const files = readdirSync(path.join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  const sources = files.filter((file) => file.endsWith('.ts') && !OTHER_STATES.includes(file))
  assert.ok(sources.length > 100, 'the sources are there')
  const read = (file: string) => statusLiterals(file, readFileSync(path.join(ROOT, 'src', file), 'utf8'))
  assert.deepEqual(sources.flatMap(read), [])
})

test('a status is found however a statement names it', () => {
  for (const line of [
    "WHERE o.status = 'open'",
    "z.status IN ('pending', 'valid')",
    "UPDATE accounts SET status = 'revoked'",
    '"p.status <> \'invalid\'"',
    "CASE WHEN approved THEN 'valid' END",
    "coalesce(attempts ->> 'status', 'pending') = 'pending' AND true",
    `THEN attempt || '{"status": "pending"}'`,
  ])
    assert.equal(statusLiterals('sample', line).length, 1, line)
})

test('a status in code is not taken for one in a statement', () => {
  for (const line of [
    'WHERE status $' + "{account.is('valid')}",
    "const status = 'open'",
    "status === 'expired' ? [sql`revoked_at IS NULL AND now() > x`]",
    "// WHERE status = 'valid'",
  ])
    assert.deepEqual(statusLiterals('sample', line), [], line)
})
