/** SECURITY.md has each way by which a certificate without validation, a right, or a way to sign in comes about. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { ENDPOINTS } from '../../../src/admin/endpoints.ts'
import { HOST_COMMANDS } from '../../../src/cli/host/host-commands.ts'
import { words } from '../../support/words.ts'

const ROOT = path.resolve(import.meta.dirname, '../../../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const codesIn = (text = '') => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)

const section = /^#### Doors$([\s\S]*?)^### /m.exec(read('SECURITY.md'))?.[1] ?? ''
const rows = section
  .split('\n')
  .filter((line) => line.startsWith('| '))
  .map((line) => line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '')))
const doors = rows
  .filter((cells) => cells.length === 4 && cells[0] !== 'What comes about')
  .flatMap(([, operations, who = '', asked = '']) => codesIn(operations).map((id) => ({ id, who, asked })))
const ofHost = rows.filter((cells) => cells.length === 2).flatMap(([, commands]) => codesIn(commands))

/** They take away, tell, or change what is shown. A new operation that gives something belongs into the table. */
const GIVES_NOTHING = words`
  getName getOpenApi getSignInMethods logout logoutEverywhere endMySession endSessionOfUser revokeToken reject withdraw
  exportAuditLog bulkRevoke cancelBulkRevocation setMaintenance rebuildCrl retryDeadLetter retryDeadLetters
  giveUpBackendRevocation retryNotifications sendTestMail purgeNotifications revokeEabCredential removeIdentifierFromEab
  createAllowedIdentifier deleteAllowedIdentifier removeAccountFromIdentifier deactivateAccount acceptTerms
  acceptLostDecisions
  revokeCertificate revokeFromCrl beginIncident adviseRenewal clearRenewals muteAtRisk unmuteAtRisk notifyAtRisk blockKey
`
const COMMANDS_GIVE_NOTHING = [
  'perspective',
  'db status',
  'db migrate',
  'db rollback-point',
  'db new-identity',
  'db search-indexes',
  'doctor',
  'mail test',
  'mail preview <type>',
  'certificates archive verify <folder>',
  'eab reseal',
  'inspect order <uuid>',
  'inspect certificate <uuid-or-serial>',
  'inspect account <uuid>',
]

describe('the doors of SECURITY.md', () => {
  test('are all operations that change something or need no token, but for those that give nothing', () => {
    const wanted = ENDPOINTS.filter(({ audit, roles }) => audit !== undefined || roles === 'none').map(({ id }) => id)
    const found = doors.map(({ id }) => id).filter((id) => wanted.includes(id))
    assert.deepEqual([...found, ...GIVES_NOTHING].sort(), wanted.sort())
  })

  test('say who may go through them, and what they ask', () => {
    assert.ok(doors.length > 20, 'the table is read')
    for (const { id, who, asked } of doors) {
      const endpoint = ENDPOINTS.find((one) => one.id === id)
      assert.ok(endpoint, id)
      const { roles, needsSession, recentSignIn, approval } = endpoint
      const says = [
        who,
        /^session\b/.test(asked),
        /\bsession, recent sign-in\b|^recent sign-in\b/.test(asked),
        /\bapproval \(/.test(asked),
      ]
      const is = [needsSession, recentSignIn, approval].map((rule) => rule !== undefined)
      assert.deepEqual([id, ...says], [id, roles === 'none' ? 'anybody' : [...roles].sort().join(', '), ...is])
    }
  })

  test('are all commands of the host, but for those that give nothing; its keys are keys of the configuration', () => {
    const usages = HOST_COMMANDS.map(({ usage }) => usage)
    const keys = ofHost.filter((one) => /^[a-z_]+\.[a-z_.]+$/.test(one))
    const commands = new Set(ofHost.filter((one) => !keys.includes(one)))
    assert.deepEqual([...commands, ...COMMANDS_GIVE_NOTHING].sort(), usages.sort())
    const manual = read('docs/configuration.md')
    for (const key of keys) assert.ok(manual.includes(`| \`${key}\` |`), key)
  })
})
