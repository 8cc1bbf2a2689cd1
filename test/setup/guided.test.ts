/** `chancery setup` as an operator meets it: on a terminal, with answers typed one after the other. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { CHECKOUT, requirePrivateHost } from '../support/private-host.ts'
import { NAME, openSetupHost, type SetupHost } from '../support/setup-run.ts'

type Dialogue = readonly (readonly [seen: string, typed: string])[]

describe('on a terminal', requirePrivateHost(), () => {
  let host: SetupHost
  before(async () => {
    host = await openSetupHost({ postgres: false })
  })
  after(() => host.close())

  async function talk(dialogue: Dialogue): Promise<{ code: number | null; output: string }> {
    host.write('/root/dialogue.json', JSON.stringify(dialogue))
    const typing = ['/usr/bin/python3', `${CHECKOUT}/test/fixtures/typed-answers.py`, '/root/dialogue.json']
    const { code, output } = await host.run(...typing, '/usr/bin/node', `${CHECKOUT}/dist/src/cli/main.js`, 'setup')
    return { code, output: output.replaceAll('\r', '') }
  }

  test('no at the end changes nothing, and the exit code says so', async () => {
    const { code, output } = await talk([...QUESTIONS, ['Do this?', 'no']])
    assert.equal(code, 1, output)
    assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
  })

  test('a wrong answer is explained and asked again; the rest leads to a certificate', async () => {
    const { code, output } = await talk([...QUESTIONS, ['Do this?', 'yes']])
    assert.equal(code, 0, output)
    assert.match(output, /"acme" must be https:\/\/ and a host/)
    assert.match(output, /"other\.example" has to cover acme\.corp\.example, because the service issues/)
    assert.match(output, /The two differ\./)
    assert.match(output, /was\s+issued and revoked/)
    assert.doesNotMatch(output, /correct horse/, 'the passphrase was shown')
    const lines = output.split('\n').map((line) => stripVTControlCharacters(line))
    assert.deepEqual(
      lines.filter((line) => [...line].length > 80),
      [],
      'lines that a terminal of 80 columns breaks',
    )
    if (process.env['SHOW'] === '1') console.log(lines.join('\n'))
  })

  test('a second run asks nothing but whether to go through the answers again, and changes nothing', async () => {
    const { code, output } = await talk([...QUESTIONS_AGAIN, ['Do this?', 'yes']])
    assert.equal(code, 0, output)
    assert.doesNotMatch(output, /… changed/)
  })
})

/** Self-issued TLS, a cluster of its own, no console; a few mistakes on the way. */
const QUESTIONS: Dialogue = [
  ['Public URL', 'acme'],
  ['must be https://', `https://${NAME}:8443`],
  ['Who terminates TLS?', 'own'],
  ['Port to listen on', ''],
  ['Domains that may be issued', 'other.example'],
  ['has to cover', 'corp.example'],
  ['Networks', '10.0.0.0/8'],
  ['Where is PostgreSQL?', 'trial'],
  ['Port of PostgreSQL', ''],
  ['The CA that issues', ''],
  ["issuer's key kept", 'file'],
  ['Kind of key', ''],
  ['Name of the root', ''],
  ["Passphrase of the root's key", 'correct horse battery'],
  ['once more', 'correct horse batteries'],
  ['The two differ', 'correct horse battery'],
  ['once more', 'correct horse battery'],
  ['Name of the issuer', ''],
  ['Write the domains and networks', 'yes'],
  ['Who may have an account?', 'open'],
  ['list of revoked', `http://${NAME}:8080`],
  ['Mail server', ''],
  ['Offer the console', 'no'],
]

const QUESTIONS_AGAIN: Dialogue = [['Go through them again?', 'no']]
