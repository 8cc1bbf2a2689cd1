/** The name by which people know an account. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AccountNaming, accountName } from '../../../src/domain/account-name.ts'

const all: AccountNaming = {
  id: '01900000-0000-7000-8000-00000000abcd',
  label: 'Payments',
  contacts: ['mailto:ops@example.com', 'mailto:second@example.com'],
  eabKid: 'team-a',
}

describe('the name of an account', () => {
  const cases: readonly (readonly [string, Partial<AccountNaming>, string])[] = [
    ['is its label', {}, 'Payments'],
    ['is else its first contact without the scheme', { label: null }, 'ops@example.com'],
    ['is else its key identifier', { label: null, contacts: [] }, 'team-a'],
    ['is else the end of its id', { label: null, contacts: [], eabKid: null }, '00000000abcd'],
  ]
  for (const [title, missing, expected] of cases)
    test(title, () => assert.equal(accountName({ ...all, ...missing }), expected))
})
