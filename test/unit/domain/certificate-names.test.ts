/** Every name of a certificate in one spelling, and every question for a name in the same. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { namesOf } from '../../../src/domain/certificate-names.ts'
import { parseCertificate } from '../../../src/shared/pki/certificate.ts'
import { canonicalName } from '../../../src/shared/protocol/identifier.ts'
import { testCa } from '../../support/ca.ts'
import { type FormerNames, issueFormerly } from '../../support/cas/former-ca.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

describe('a name of a certificate', () => {
  const spellings: Record<string, readonly string[]> = {
    'www.example.com': ['WWW.Example.COM', 'www.example.com.', '.www.example.com', ' www.example.com '],
    'xn--bcher-kva.example': ['bücher.example', 'BÜCHER.example.', 'XN--BCHER-KVA.example'],
    '*.xn--bcher-kva.example': ['*.Bücher.example'],
    'foo_bar.example': ['Foo_Bar.example.'],
    '192.0.2.7': ['192.0.2.7', '::ffff:192.0.2.7'],
    '2001:db8::1': ['2001:DB8:0:0:0:0:0:1', '2001:db8::0001'],
    'jane.doe@xn--bcher-kva.example': ['Jane.Doe@Bücher.example', 'jane.doe@xn--bcher-kva.example.'],
    'jane doe': ['Jane  Doe', ' JANE DOE '],
    'example inc.': ['Example Inc.'],
    'spiffe://example.com/team': ['SPIFFE://Example.com/Team'],
    'straße am fluß 7': ['Straße am Fluß 7'],
    'a\ufffdb': ['a\0b', 'A\ud800B'],
  }
  for (const [canonical, all] of Object.entries(spellings))
    test(`is ${canonical} however it is written`, () => {
      assert.deepEqual(new Set(all.map(canonicalName)), new Set([canonical]))
      assert.equal(canonicalName(canonical), canonical, 'it is its own canonical spelling')
    })
})

describe('the names of a certificate', () => {
  const folder = temporaryFolder()
  const named = async (names: FormerNames) => {
    const { der } = await issueFormerly(await testCa(folder), names)
    return namesOf(parseCertificate(der).tbs)
  }

  test('are those of the SAN, DNS names and addresses first, then the subject, each once', async () => {
    const names = await named({
      subject: 'CN=WWW.Example.com, CN=Web Server 7, E=Admin@Example.com',
      sans: [
        { type: 'email', value: 'Web@Example.com' },
        { type: 'dns', value: 'WWW.Example.com' },
        { type: 'url', value: 'https://Example.com/A' },
        { type: 'ip', value: '2001:DB8::1' },
        { type: 'upn', value: 'Jane@AD.Example' },
      ],
    })
    assert.deepEqual(names, {
      names: [
        'www.example.com',
        '2001:db8::1',
        'web@example.com',
        'https://example.com/a',
        'jane@ad.example',
        'web server 7',
        'admin@example.com',
      ],
      identifiers: 2,
    })
  })

  test('without a SAN are the common name alone, which a successor must have', async () => {
    assert.deepEqual(await named({ subject: 'CN=Printer.Example.com', sans: [] }), {
      names: ['printer.example.com'],
      identifiers: undefined,
    })
  })

  test('that are longer than anybody can ask for are left out', async () => {
    const long = `https://example.com/${'a'.repeat(300)}`
    const { names } = await named({ subject: 'CN=short', sans: [{ type: 'url', value: long }] })
    assert.deepEqual(names, ['short'])
  })
})
