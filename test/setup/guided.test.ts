/** `chancery setup` as an operator meets it: on a terminal, with answers typed one after the other. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { CHECKOUT, requirePrivateHost } from '../support/hosts/private-host.ts'
import { NAME, openSetupHost, type SetupHost } from '../support/hosts/setup-run.ts'

const SETUP = ['/usr/bin/node', `${CHECKOUT}/dist/src/cli/main.js`, 'setup']

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
    const { code, output } = await host.run(...typing, ...SETUP)
    return { code, output: output.replaceAll('\r', '') }
  }

  test('no at the end changes nothing, and the exit code says so', async () => {
    const { code, output } = await talk([...QUESTIONS, ['Do this?', 'no']])
    assert.equal(code, 1, output)
    assert.equal((await host.run('test', '-e', '/etc/chancery')).code, 1)
    const kept = await host.run(...SETUP, '--unattended', '--dry-run', '--answers', '/root/chancery-answers.yaml')
    assert.equal(kept.code, 0, kept.output)
    assert.match(kept.output, /external_url: "https:\/\/acme\.corp\.example:8443"/)
  })

  test('< goes back to the question before, and change at the end through all of them', async () => {
    const { code, output } = await talk([...BACK_AND_FORTH, ['Do this?', 'no']])
    assert.equal(code, 1, output)
    const kept = host.read('/root/chancery-answers.yaml')
    assert.match(kept, /^tls: "own"$/m)
    assert.match(kept, /^accounts: "eab"$/m)
    assert.match(kept, /^networks: \["10\.0\.0\.0\/8"\]$/m)
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
  ['CAA records', ''],
  ['list of revoked', `http://${NAME}:8080`],
  ['Mail server', ''],
  ['Offer the console', 'no'],
]

/** Enter takes what was answered before, but for one. */
const AGAIN: Dialogue = [
  ...['Public URL', 'Who terminates TLS?', 'Port to listen on', 'Domains', 'Networks', 'Where is', 'Port of Postgre'],
  ...['The CA that issues', 'key kept', 'Kind of key', 'Name of the root', 'Enter keeps', 'Name of the issuer'],
  ...['Write the domains', 'Who may have an account?', 'CAA records', 'list of revoked', 'Mail server', 'Offer the'],
].map((seen) => [seen, seen.startsWith('Who may') ? 'eab' : ''])

const BACK_AND_FORTH: Dialogue = [
  ['Public URL', `https://${NAME}:8443`],
  ['Who terminates TLS?', 'files'],
  ['File with the certificate', '<'],
  ['Who terminates TLS?', 'own'],
  ...QUESTIONS.slice(3),
  ['Do this?', 'change'],
  ...AGAIN.map(([seen, typed]) => [seen, typed] as const),
]

const QUESTIONS_AGAIN: Dialogue = [['Go through them again?', 'no']]
