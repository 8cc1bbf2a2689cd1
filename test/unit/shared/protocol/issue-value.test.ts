/** Issue values (RFC 8659 §4.2, RFC 8657 §3, draft-ietf-acme-dns-persist §4.1). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type IssueValue,
  issuerPart,
  parameterValues,
  parseIssueValue,
  repeatedTag,
} from '../../../../src/shared/protocol/caa.ts'
import { forAnyInput } from '../../../support/property-runs.ts'

/** The usual spelling: `issuer; tag=value; tag=value`. */
function renderIssueValue({ issuerDomainName, parameters }: IssueValue): string {
  if (issuerDomainName === '' && parameters.length === 0) return ';'
  return [issuerDomainName, ...parameters.map(({ tag, value }) => `${tag}=${value}`)].join('; ')
}

type Row = [issuer: string, ...parameters: string[]]

describe('Issue value', () => {
  const accepted: Record<string, Row> = {
    '': [''],
    ' \t ': [''],
    ';': [''],
    ' ; ': [''],
    'ca.example': ['ca.example'],
    '  ca.example\t': ['ca.example'],
    'ca.example;': ['ca.example'],
    'ca.example ;  ': ['ca.example'],
    'CA.Example': ['ca.example'],
    localhost: ['localhost'],
    '1.2': ['1.2'],
    'a--b.example': ['a--b.example'],
    'ca.example;account=230123': ['ca.example', 'account=230123'],
    'ca.example; accounturi=https://ca.example/acct/1': ['ca.example', 'accounturi=https://ca.example/acct/1'],
    'ca.example\t;\ta\t=\tb\t;\tc=d\t': ['ca.example', 'a=b', 'c=d'],
    'ca.example; a=': ['ca.example', 'a='],
    'ca.example; a = ; b=1': ['ca.example', 'a=', 'b=1'],
    'ca.example; a==b=c': ['ca.example', 'a==b=c'],
    'ca.example; Account-URI=MixedCase': ['ca.example', 'account-uri=MixedCase'],
    'ca.example; 1=2': ['ca.example', '1=2'],
    'ca.example; a=1; A=2': ['ca.example', 'a=1', 'a=2'],
    '; a=b': ['', 'a=b'],
    'ca.example; a=!"#$%&\'()*+,-./:<=>?@[]^_`{|}~': ['ca.example', 'a=!"#$%&\'()*+,-./:<=>?@[]^_`{|}~'],
  }
  for (const [text, row] of Object.entries(accepted))
    test(`${JSON.stringify(text)} is read`, () => assert.deepEqual(flat(parseIssueValue(text)), row))

  const refused: Record<string, string> = {
    'a trailing dot': 'ca.example.',
    'an empty label': 'ca..example',
    'a label that starts with a hyphen': '-ca.example',
    'a label that ends with a hyphen': 'ca-.example',
    'an underscore in the name': '_ca.example',
    'a name in Unicode': 'zürich.example',
    'two names': 'ca.example ca2.example',
    'a URL in place of the name': 'https://ca.example',
    'a wildcard in place of the name': '*.ca.example',
    'a parameter without =': 'ca.example; accounturi',
    'a parameter without a tag': 'ca.example; =x',
    'a tag with a space': 'ca.example; a b=c',
    'a tag with an underscore': 'ca.example; a_b=c',
    'a tag that ends with a hyphen': 'ca.example; a-=c',
    'a value with a space': 'ca.example; a=b c',
    'a value beyond ASCII': 'ca.example; a=é',
    'a value with a control character': 'ca.example; a=b\u007f',
    'a trailing semicolon': 'ca.example; a=b;',
    'an empty parameter': 'ca.example; a=b; ; c=d',
    'two semicolons': 'ca.example;;',
    'a line break at the end': 'ca.example\n',
    'a no-break space': '\u00a0ca.example',
    'parameters separated by spaces (RFC 6844)': 'ca.example; a=b c=d',
    'an SPF record': 'v=spf1 include:example.net -all',
  }
  for (const [what, text] of Object.entries(refused))
    test(`${what} is refused`, () => assert.equal(parseIssueValue(text), undefined))

  test('the issuer is told from malformed text too', () => {
    assert.equal(issuerPart(' ca.example ; accounturi'), 'ca.example')
    assert.equal(issuerPart('not a name'), 'not a name')
  })

  test('all values of a tag are given, whatever its spelling', () => {
    const value = parseIssueValue('ca.example; AccountURI=a; x=1; accounturi=b') as IssueValue
    assert.deepEqual(parameterValues(value, 'accounturi'), ['a', 'b'])
    assert.deepEqual(parameterValues(value, 'policy'), [])
  })

  test('a repeated tag is found, an unknown one too', () => {
    assert.equal(repeatedTag(parseIssueValue('ca.example; x=1; y=2; X=1') as IssueValue), 'x')
    assert.equal(repeatedTag(parseIssueValue('ca.example; x=1; y=2') as IssueValue), undefined)
  })

  test('any bytes are judged without a throw, and what is accepted is written back to an equal value', () => {
    const noise = fc.uint8Array({ maxLength: 300 }).map((octets) => Buffer.from(octets).toString('latin1'))
    const near = fc
      .array(fc.constantFrom('ca.example', ';', '=', ' ', '\t', 'a', '-', '.', 'Z', '9', '\u0080', 'accounturi', '/'), {
        maxLength: 40,
      })
      .map((parts) => parts.join(''))
    forAnyInput(fc.oneof(noise, near), (text) => {
      const value = parseIssueValue(text)
      if (value) assert.deepEqual(parseIssueValue(renderIssueValue(value)), value)
    })
  })

  test('everything the grammar can write is read, with white space wherever it may stand', () => {
    const space = fc.stringMatching(/^[ \t]{0,3}$/)
    const ldh = fc.stringMatching(/^[a-z0-9](?:[a-z0-9-]{0,8}[a-z0-9])?$/)
    const parameter = fc.tuple(ldh, fc.stringMatching(/^[\x21-\x3a\x3c-\x7e]{0,12}$/), space, space)
    const name = fc.array(ldh, { maxLength: 4 }).map((labels) => labels.join('.'))
    forAnyInput(space, name, space, fc.array(parameter, { maxLength: 5 }), (before, issuer, after, parameters) => {
      const list = parameters.map(([tag, value, left, right]) => `${left}${tag}${right}=${left}${value}${right}`)
      const text = `${before}${issuer}${after}${list.length === 0 ? '' : `;${list.join(';')}`}`
      assert.deepEqual(parseIssueValue(text), {
        issuerDomainName: issuer,
        parameters: parameters.map(([tag, value]) => ({ tag, value })),
      })
    })
  })
})

function flat(value: IssueValue | undefined): Row | undefined {
  return (
    value && [value.issuerDomainName, ...value.parameters.map((parameter) => `${parameter.tag}=${parameter.value}`)]
  )
}
