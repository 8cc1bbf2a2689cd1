/** Methods that validator modules add, over HTTP (`ext:` in `challenges.enabled`). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { type AcmeClient, type Answer, csrFor, locationOf, registeredClient } from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { runChancery } from '../support/commands.ts'
import { freePort } from '../support/free-port.ts'
import { chancery } from '../support/operator.ts'
import { configOf } from '../support/reload.ts'
import { ACCEPT_ALL, FAULTY_VALIDATOR } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

/** Behind those of modules. */
const BUILT_IN = ['dns-01', 'dns-account-01', 'dns-persist-01']
const PROBLEM = 'urn:ietf:params:acme:error:'

interface ChallengeObject {
  type: string
  url: string
  status: string
  token?: string
}

async function authorizationOf(
  client: AcmeClient,
  order: Answer,
): Promise<{ url: string; challenges: ChallengeObject[] }> {
  const url = order.json.authorizations[0] as string
  return { url, challenges: (await client.post(url)).json.challenges }
}

const ofType = (challenges: ChallengeObject[], type: string) =>
  challenges.find((challenge) => challenge.type === type) as ChallengeObject

describe('methods of validator modules', () => {
  const { service, client } = acmeScene('names')

  const typesFor = async (name: string) => {
    const { challenges } = await authorizationOf(client, await client.newOrder([name]))
    return challenges.map(({ type }) => type)
  }

  /** Triggers one challenge of a fresh order and waits for its end. */
  async function settle(
    name: string,
    type: string,
  ): Promise<{ order: Answer; challenge: Answer; authorization: Answer }> {
    const order = await client.newOrder([name])
    const { url, challenges } = await authorizationOf(client, order)
    const challenge = ofType(challenges, type)
    assert.equal((await client.post(challenge.url, {})).status, 200)
    const authorization = await client.settled(url)
    return { order, authorization, challenge: await client.post(challenge.url) }
  }

  test('methods are offered in the order of the configuration, if their module can validate the identifier', async () => {
    assert.deepEqual(await typesFor('offer.test'), ['http-01', 'faulty-01', 'accept-all-01', ...BUILT_IN])
    assert.deepEqual(await typesFor('*.offer.test'), ['accept-all-01', ...BUILT_IN])
    assert.deepEqual(await typesFor('192.0.2.1'), ['http-01', 'accept-all-01'])
  })

  test('a name that a module approves of gets its certificate', async () => {
    const { order, challenge } = await settle('good.test', 'faulty-01')
    assert.equal(challenge.json.status, 'valid')
    assert.ok(challenge.json.validated)
    const answer = await client.post(order.json.finalize, { csr: await csrFor(['good.test']) })
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await client.settled(locationOf(order))).json.status, 'valid')
  })

  test('a wildcard goes through as well', async () => {
    const { authorization } = await settle('*.wide.test', 'accept-all-01')
    assert.deepEqual([authorization.json.status, authorization.json.wildcard], ['valid', true])
  })

  test('a refusal is what the module says it is', async () => {
    const { challenge, authorization } = await settle('bad.test', 'faulty-01')
    assert.equal(authorization.json.status, 'invalid')
    assert.deepEqual(challenge.json.error, { type: `${PROBLEM}unauthorized`, detail: 'not yours', status: 403 })
  })

  for (const behaviour of ['throws', 'truthy', 'hangs'])
    test(`a module that gives no verdict is asked again, and then the challenge is invalid: ${behaviour}`, async () => {
      const { challenge, authorization } = await settle(`${behaviour}.no-verdict.test`, 'faulty-01')
      assert.equal(authorization.json.status, 'invalid')
      assert.equal(challenge.json.error.type, `${PROBLEM}serverInternal`)
      assert.match(challenge.json.error.detail, /^the validator of faulty-01 /)
      const tried = () => service.log.filter((line) => line['identifier'] === `${behaviour}.no-verdict.test`)
      await until('both attempts are in the log', () => tried().length >= 2)
      assert.deepEqual(
        tried().map((line) => line['result']),
        ['retry', 'failure'],
      )
    })

  test('one challenge has one URL: the place of a built-in method is none', async () => {
    const { challenges } = await authorizationOf(client, await client.newOrder(['one-url.test']))
    const { url } = ofType(challenges, 'faulty-01')
    const answers = await Promise.all(
      [...'0123456789abcdef'].map((digit) =>
        client.post(url.slice(0, -1) + digit).then(({ status }) => [digit, status]),
      ),
    )
    assert.deepEqual(
      answers.filter(([, status]) => status === 200),
      [
        ['1', 200],
        ['2', 200],
        ['4', 200],
        ['5', 200],
        ['7', 200],
        ['8', 200],
      ],
    )
    assert.equal((await client.post(`${url.slice(0, -1)}6`, {})).status, 404)
  })

  test('the challenge of another account stays that account’s', async () => {
    const { challenges } = await authorizationOf(client, await client.newOrder(['mine.test']))
    const other = await registeredClient(service.directoryUrl)
    for (const payload of [undefined, {}]) {
      const answer = await other.post(ofType(challenges, 'faulty-01').url, payload)
      assert.deepEqual([answer.status, answer.json.type], [403, `${PROBLEM}unauthorized`])
    }
  })

  test('inspect order shows them', async () => {
    const { order } = await settle('inspected.test', 'accept-all-01')
    const id = locationOf(order).split('/').at(-1) as string
    const { stdout } = await chancery(service, 'inspect', 'order', id, '--json')
    const shown = JSON.parse(stdout).authorizations[0].challenges as { id: string; type: string; status: string }[]
    assert.deepEqual(
      shown.map(({ type, status, id: challenge }) => [type, status, challenge.at(-1)]),
      [
        ['http-01', 'pending', '1'],
        ['faulty-01', 'pending', '7'],
        ['accept-all-01', 'valid', '8'],
        ['dns-01', 'pending', '2'],
        ['dns-account-01', 'pending', '5'],
        ['dns-persist-01', 'pending', '4'],
      ],
    )
  })
})

describe('a module that cannot be used', () => {
  const { service } = acmeScene('names')
  let configFile: string
  let good: string
  before(async () => {
    configFile = path.join(service.folder, 'unusable.yaml')
    const config = configOf(service)
    good = config.text()
    const port = await freePort()
    config.edit((tree) => {
      tree['server'] = { ...tree['server'], port }
      tree['challenges'] = { enabled: ['http-01', ACCEPT_ALL], extensions: {} }
    })
    const edited = config.text()
    config.write(good)
    good = edited
  })

  const start = (from: string, to: string, ...words: string[]) => {
    writeFileSync(configFile, good.replace(from, to))
    return runChancery(['-c', configFile, ...words])
  }

  test('refuses the start and the check of the configuration, with a sentence that names it', async () => {
    for (const words of [['serve'], ['--validate-only']]) {
      const { code, stderr } = await start(ACCEPT_ALL, `${FAULTY_VALIDATOR}#Absent`, ...words)
      assert.equal(code, 1, words.join(' '))
      assert.match(stderr, /challenges\.enabled: ext:\S+faulty\.mjs#Absent is not usable: exports no Absent\n/)
    }
  })

  test('one that can be used passes the check', async () => {
    const { code, stdout } = await start('', '', '--validate-only')
    assert.equal(code, 0)
    assert.match(stdout, /^challenges http-01, accept-all-01$/m)
  })

  test('two validators of one method are refused', async () => {
    const { code, stderr } = await start(ACCEPT_ALL, `${FAULTY_VALIDATOR}#Http01`, '--validate-only')
    assert.equal(code, 1)
    assert.match(stderr, /challenges\.enabled: http-01 is offered twice/)
  })

  test('settings for a method that no module has are refused', async () => {
    const extensions = 'extensions: { accept-all-02: { max_retries: 1 } }'
    const { code, stderr } = await start('extensions: {}', extensions, '--validate-only')
    assert.equal(code, 1)
    assert.match(
      stderr,
      /challenges\.extensions\.accept-all-02: no module in challenges\.enabled has this type \(accept-all-01\)/,
    )
  })
})
