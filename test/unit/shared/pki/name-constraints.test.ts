/** Name constraints (RFC 5280 §4.2.1.10): what is read and written, and which names they admit. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { DerError, DerReader } from '../../../../src/shared/pki/der.ts'
import { encodeDer } from '../../../../src/shared/pki/der-writer.ts'
import { readExtensions } from '../../../../src/shared/pki/extensions.ts'
import { encodeCommonName, encodeNameText, parseName } from '../../../../src/shared/pki/name.ts'
import {
  admitsAnyName,
  checkNameConstraints,
  type NameConstraints,
  NO_SUBTREES,
  nameConstraintsOf,
  parseNameConstraints,
  parseNetwork,
  writeNameConstraints,
} from '../../../../src/shared/pki/name-constraints.ts'
import { constraintsOn } from '../../../signer/authority.ts'
import { hex } from './support.ts'

function refusal(value: string, ...constraints: NameConstraints[]): string | undefined {
  const kind = /^[\d.]+$|:/.test(value) ? 'iPAddress' : 'dNSName'
  return checkNameConstraints({ subject: [], subjectAltNames: [{ kind, value }] }, constraints)
}
const directory = (text: string): NameConstraints => ({
  permitted: { ...NO_SUBTREES, directory: [parseName(encodeNameText(text))] },
  excluded: NO_SUBTREES,
})

describe('name constraints', () => {
  test('are written critical, and read back as they were', () => {
    const constraints = constraintsOn(
      { dns: ['corp.test'], ip: ['10.0.0.0/8', '2001:db8::/33'] },
      { dns: ['secret.corp.test'], ip: ['10.9.8.0/22'] },
    )
    const extensions = readExtensions(new DerReader(encodeDer((writer) => writeNameConstraints(writer, constraints))))
    assert.equal(extensions[0]?.critical, true)
    assert.deepEqual(nameConstraintsOf({ extensions }), constraints)
    assert.equal(nameConstraintsOf({ extensions: [] }), undefined)
    assert.deepEqual(parseNetwork('10.9.8.0/22')?.mask, Buffer.of(255, 255, 252, 0))
    for (const text of ['10.0.0.0', '10.0.0.0/33', '10.0.0/8', '10.0.0.0/8/8', 'x/8'])
      assert.equal(parseNetwork(text), undefined, text)
  })

  const unreadable: readonly (readonly [string, string])[] = [
    ['without a subtree', '3000'],
    ['with an empty list of subtrees', '3002a000'],
    ['with a distance', '3009a0073005820161800101'],
    ['with an address without mask', '300aa00830068704c0000201'],
    ['with a third member', '3004a2023000'],
  ]
  for (const [what, value] of unreadable)
    test(`${what} are not read`, () => assert.throws(() => parseNameConstraints(hex(value)), DerError))

  const corp = constraintsOn(
    { dns: ['corp.test'], ip: ['10.0.0.0/8'] },
    { dns: ['secret.corp.test'], ip: ['10.9.0.0/16'] },
  )
  const dotted = constraintsOn({ dns: ['.corp.test'] })
  /** Name, constraints, what is said of it. */
  const rows: readonly (readonly [string, readonly NameConstraints[], RegExp | undefined])[] = [
    ['corp.test', [corp], undefined],
    ['A.Corp.Test', [corp], undefined],
    ['*.corp.test', [constraintsOn({ dns: ['corp.test'] })], undefined],
    ['x.lab.test', [corp], /x\.lab\.test is outside the permitted subtrees/],
    ['notcorp.test', [corp], /outside/],
    ['b.secret.corp.test', [corp], /reaches into an excluded subtree/],
    // The wildcard would be good for secret.corp.test.
    ['*.corp.test', [corp], /excluded/],
    ['test', [corp], /outside/],
    ['a.corp.test', [dotted], undefined],
    ['*.corp.test', [dotted], undefined],
    ['corp.test', [dotted], /outside/],
    ['anything.test', [constraintsOn({}, { dns: [''] })], /excluded/],
    ['10.1.2.3', [corp], undefined],
    ['11.1.2.3', [corp], /outside the permitted networks/],
    ['10.9.1.1', [corp], /in an excluded network/],
    // RFC 5280 §4.2.1.10: the type is constrained, and no network of IPv6 is listed.
    ['2001:db8::1', [corp], /outside/],
    ['10.1.2.3', [constraintsOn({ dns: ['corp.test'] })], undefined],
    ['a.b.corp.test', [corp, constraintsOn({ dns: ['b.corp.test'] })], undefined],
    ['a.corp.test', [corp, constraintsOn({ dns: ['b.corp.test'] })], /outside/],
    ['a.b.corp.test', [corp, constraintsOn({}, { dns: ['b.corp.test'] })], /excluded/],
  ]
  for (const [name, constraints, said] of rows)
    test(`${said ? 'refuse' : 'admit'} ${name} under ${constraints.length} of them (${said ?? 'inside'})`, () => {
      const found = refusal(name, ...constraints)
      if (said) assert.match(found ?? '', said)
      else assert.equal(found, undefined)
    })

  test('of directory names are for subjects that are not empty, compared without case and runs of spaces', () => {
    const check = (subject: string) =>
      checkNameConstraints({ subject: parseName(encodeNameText(subject)), subjectAltNames: [] }, [
        directory('O=Example  Corp,C=DE'),
      ])
    assert.equal(check('CN=www.corp.test,O=example corp,C=DE'), undefined)
    assert.match(check('CN=www.corp.test,O=Other,C=DE') ?? '', /outside the permitted subtrees of directory names/)
    assert.match(check('C=DE') ?? '', /outside/)
    assert.equal(refusal('www.corp.test', directory('O=Example Corp,C=DE')), undefined)
  })

  // RFC 5280 §4.2.1.10: process the constraint, or reject the certificate.
  test('of types that are not judged refuse a name of that type, and no other', () => {
    const mail: NameConstraints = {
      permitted: { ...NO_SUBTREES, others: new Set(['rfc822Name' as const]) },
      excluded: NO_SUBTREES,
    }
    const subject = parseName(encodeCommonName('www.corp.test'))
    const name = { kind: 'rfc822Name' as const, value: 'a@corp.test' }
    assert.match(checkNameConstraints({ subject, subjectAltNames: [name] }, [mail]) ?? '', /not judged here/)
    assert.equal(checkNameConstraints({ subject, subjectAltNames: [] }, [mail]), undefined)
    const read = parseNameConstraints(hex('300ea00c300a8108636f72702e746573'))
    assert.deepEqual([...read.permitted.others], ['rfc822Name'])
  })

  test('leave something, or nothing', () => {
    const nothing = [
      [constraintsOn({ dns: [], ip: [] })],
      [constraintsOn({ dns: ['a.test'], ip: [] }), constraintsOn({ dns: ['b.test'] })],
      [constraintsOn({ dns: ['a.test'], ip: ['10.0.0.0/8'] }, { dns: ['test'], ip: ['0.0.0.0/0', '::/0'] })],
      [constraintsOn({ ip: ['10.0.0.0/8'] }, { dns: [''] }), constraintsOn({ ip: ['11.0.0.0/8'] })],
    ]
    for (const one of nothing) assert.equal(admitsAnyName(one), false)
    const something = [
      [],
      [corp],
      [constraintsOn({ dns: ['a.test'], ip: [] }), constraintsOn({ dns: ['b.a.test', 'c.test'] })],
      [constraintsOn({ dns: ['.a.test'], ip: [] }), constraintsOn({ dns: ['a.test'] })],
      [constraintsOn({ dns: [], ip: ['10.0.0.0/8'] }, { ip: ['10.0.0.0/16'] })],
    ]
    for (const one of something) assert.equal(admitsAnyName(one), true)
  })
})
