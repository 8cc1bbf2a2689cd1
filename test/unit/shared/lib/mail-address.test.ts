/** Which addresses a user may have: those that a mail server takes. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isMailAddress } from '../../../../src/shared/lib/bounded.ts'
import { words } from '../../../support/words.ts'

const TAKEN = [
  'a@x.test',
  'first.last+tag@mail.example.org',
  "o'hara@localhost",
  'jörg@bücher.example',
  `${'l'.repeat(64)}@x.test`,
]

const REFUSED = [
  'Ann <a@x.test>',
  '"a b"@x.test',
  'a b@x.test',
  '',
  'a@x.test\r\n',
  ...words`
    <a@x.test> a,b@x.test a;b@x.test a:b@x.test a a@ @x.test a@b@x.test a..b@x.test .a@x.test a@x..test a@-x.test
    a@x_y.test
  `,
]

// RFC 5321 §4.5.3.1
const TOO_LONG = [
  `${'l'.repeat(65)}@x.test`,
  `a@${'d'.repeat(64)}.test`,
  `a@${'d'.repeat(300)}.test`,
  `a@${'d.'.repeat(126)}test`,
]

test('an address has a local part of at most 64 and a domain of at most 253 characters', () => {
  for (const address of TAKEN) assert.ok(isMailAddress(address), address)
  for (const address of [...REFUSED, ...TOO_LONG]) assert.ok(!isMailAddress(address), address)
})
