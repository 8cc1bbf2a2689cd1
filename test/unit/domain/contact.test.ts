/** Account contacts (RFC 8555 §7.3). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ContactPolicy, checkContacts } from '../../../src/domain/contact.ts'
import { problemOf } from '../../support/refusals.ts'
import { words } from '../../support/words.ts'

const POLICY: ContactPolicy = { required: false, allowedDomains: [] }
const accepted = [
  'mailto:admin@example.org',
  'mailto:a.b+c_d@sub.example.org',
  "mailto:o'hara@xn--bcher-kva.example",
  `mailto:${'a'.repeat(236)}@example.org`,
]
for (const contact of accepted)
  test(`${contact.slice(0, 50)} is accepted as it is`, () =>
    assert.deepEqual(checkContacts([contact], POLICY), [contact]))

test('the scheme is read in any case and written in one', () =>
  assert.deepEqual(checkContacts(['MAILTO:Admin@example.org'], POLICY), ['mailto:Admin@example.org']))

test('white space around a contact and its address is dropped', () => {
  for (const contact of ['mailto: a@b.org', ' mailto:a@b.org', 'mailto:a@b.org\r\n', '\tMAILTO:\ta@b.org '])
    assert.deepEqual(checkContacts([contact], POLICY), ['mailto:a@b.org'], JSON.stringify(contact))
})

for (const [contact, reason] of [
  ['mailto:', /names no address/],
  ['mailto: ', /names no address/],
  ['mailto:a b@c.org', /white space/],
  ['mailto:<a@b.org>', /only the address itself/],
  ['mailto:A <a@b.org>', /only the address itself/],
  ['mailto:ä@b.org', /only ASCII/],
  ['mailto:a', /exactly one @/],
  ['mailto:a@b@c.org', /exactly one @/],
  ['mailto:a@localhost', /domain of the contact has no dot/],
  ['mailto:a@-b.org', /is no domain name/],
  ['mailto:(a)@b.org', /before the @/],
] as const)
  test(`${JSON.stringify(contact)} is invalidContact, and the refusal says what is wrong`, () => {
    assert.throws(() => checkContacts([contact], POLICY), reason)
    assert.throws(() => checkContacts([contact], POLICY), problemOf('invalidContact'))
  })

test('a contact that is listed twice is kept once', () =>
  assert.deepEqual(checkContacts(['mailto:a@b.org', 'mailto:a@b.org'], POLICY), ['mailto:a@b.org']))

for (const contact of ['', 'admin@example.org', 'tel:+12015550123', 'https://example.org', 'mailtoo:a@b.org'])
  test(`${JSON.stringify(contact)} is unsupportedContact`, () =>
    assert.throws(() => checkContacts([contact], POLICY), problemOf('unsupportedContact')))

const invalid = [
  ...words`mailto:@b.org mailto:a@ mailto:a@b mailto:a@b. mailto:a@.org mailto:a@b-.org mailto:a@b.org,c@d.org`,
  ...words`mailto:a@b.org?subject=x mailto:a@b.org? mailto:a@bü.org mailto:"a"@b.org mailto:a@[127.0.0.1]`,
  `mailto:${'a'.repeat(237)}@example.org`,
]
for (const contact of invalid)
  test(`${JSON.stringify(contact.slice(0, 40))} is invalidContact`, () =>
    assert.throws(() => checkContacts([contact], POLICY), problemOf('invalidContact')))

test('at most ten contacts', () => {
  const contacts = Array.from({ length: 11 }, (_, i) => `mailto:a${i}@b.org`)
  checkContacts(contacts.slice(1), POLICY)
  assert.throws(() => checkContacts(contacts, POLICY), problemOf('invalidContact'))
})

test('none is enough unless one is required', () => {
  assert.deepEqual(checkContacts([], POLICY), [])
  assert.throws(() => checkContacts([], { ...POLICY, required: true }), problemOf('invalidContact'))
})

test('domains outside the allowed ones are refused, those below them too', () => {
  const policy = { ...POLICY, allowedDomains: ['Example.org'] }
  checkContacts(['mailto:a@EXAMPLE.org'], policy)
  for (const contact of ['mailto:a@example.com', 'mailto:a@sub.example.org', 'mailto:a@badexample.org'])
    assert.throws(() => checkContacts([contact], policy), problemOf('invalidContact'))
})
