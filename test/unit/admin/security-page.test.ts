/** What SECURITY.md, CONTRIBUTING.md and the manual say of administrators and of the tests is what the tables of the code say. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'
import { LEAST_CHARACTERS } from '../../../src/admin/users/passwords.ts'
import { renderManual } from '../../../src/config/render.ts'
import { AUDIT_ACTIONS } from '../../../src/domain/audit-chain.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
/** Without its line breaks. */
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8').replaceAll(/\s+/g, ' ')
const security = read('SECURITY.md')
const manual = read('docs/operations/administration.md')

/** Operation that asks for a recent sign-in → the words of the pages for it. */
const RECENT: Record<string, string> = {
  createUser: 'users',
  updateUser: 'users',
  deleteUser: 'users',
  resetPassword: 'users',
  updateMe: "one's own mail address",
  getRegistrationOptions: 'passkeys',
  removePasskey: 'passkeys',
  createToken: 'API tokens',
  createEabCredential: 'pre-approved networks',
  changeIdentifiersOfEab: 'pre-approved networks',
  addIdentifierToEab: 'pre-approved networks',
  setSigning: 'resumed signing',
  bulkRevoke: 'confirmed bulk revocations',
  beginIncident: 'incidents that revoke',
  approve: 'approvals',
}
/** Where one begins; it cannot ask for itself. */
const recent = ENDPOINTS.filter(({ recentSignIn }) => recentSignIn !== undefined).map(({ id }) => id)

describe('the pages on administrators', () => {
  test('name all that asks for a recent sign-in', () => {
    assert.deepEqual(recent.toSorted(), Object.keys(RECENT).sort())
    const [, stolen = ''] = /_A stolen session_ (.*?) Read `/.exec(security) ?? []
    const [, ofManual = ''] = /\*\*A recent sign-in\.\*\* (.*?)`admin_api/.exec(manual) ?? []
    for (const words of new Set(Object.values(RECENT))) {
      assert.ok(stolen.includes(words), `SECURITY.md: ${words}`)
      assert.ok(ofManual.toLowerCase().includes(words.toLowerCase()), `administration.md: ${words}`)
    }
  })

  test('name every approval that the configuration knows', () => {
    const keys = [...renderManual().matchAll(/^\| `admin_api\.approvals\.(\w+)`/gm)].map(([, key]) => key as string)
    assert.ok(keys.length > 3)
    for (const key of keys.filter((one) => one !== 'expire_after_hours')) {
      assert.ok(security.includes(`\`${key}\``), `SECURITY.md: ${key}`)
      assert.ok(manual.includes(key), `administration.md: ${key}`)
    }
  })

  test('say how long a password of its user is', () => {
    assert.ok(security.includes(`chosen by their user with at least ${LEAST_CHARACTERS} characters`))
    assert.ok(manual.includes(`Passwords of one's own choice have ${LEAST_CHARACTERS} to`))
  })

  test('name acts that the audit log has', () => {
    const [, acts = ''] = /Read (`.*?) in the audit log/.exec(security) ?? []
    const named = [...acts.matchAll(/`([a-z_.]+)`/g)].map(([, action]) => action as string)
    assert.ok(named.length > 3, acts)
    for (const action of named) assert.ok((AUDIT_ACTIONS as readonly string[]).includes(action), action)
  })
})

describe('CONTRIBUTING.md', () => {
  const page = read('CONTRIBUTING.md')

  test('has each folder of the tests in the table of rings', () => {
    const table = page.slice(page.indexOf('| Ring |'), page.indexOf('`testDatabase()` clones'))
    const named = [...table.matchAll(/`(?:test\/)?([a-z]+)(?:\/<folder>)?`/g)].map(([, folder]) => folder)
    const folders = readdirSync(path.join(ROOT, 'test'), { withFileTypes: true }).filter((one) => one.isDirectory())
    const rings = folders.map(({ name }) => name).filter((name) => !['fixtures', 'support'].includes(name))
    assert.deepEqual(
      rings.filter((name) => !named.includes(name)),
      [],
    )
  })

  test('has commands that there are', () => {
    const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { scripts: object }
    const names = [...page.matchAll(/`npm run ([a-z]+)/g)].map(([, name]) => name as string)
    for (const name of names) assert.ok(name in scripts, name)
  })
})
