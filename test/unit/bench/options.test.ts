import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import sade from 'sade'
import { pollDelayMs } from '../../../bench/client/polling.ts'
import { shareOf } from '../../../bench/generator/fleet.ts'
import { ABUSE_FLAGS, parseAbuseOptions } from '../../../bench/options/abuse.ts'
import { FLAGS, parseOptions } from '../../../bench/options/options.ts'
import { OVERLOAD_FLAGS, parseOverloadOptions } from '../../../bench/options/overload.ts'
import type { Flag, Raw } from '../../../bench/options/reader.ts'
import { parseScaleOptions, SCALE_FLAGS } from '../../../bench/options/scale.ts'
import { accountIndexOf, nameMaker } from '../../../bench/scenario/names.ts'
import { SCENARIOS } from '../../../bench/scenario/table.ts'

const options = (given: Record<string, unknown> = {}) => parseOptions(given)

/** What a command is told by words: each of its flags has its default, or stands there without a value. */
function told(flags: readonly Flag[], ...words: string[]): Raw {
  const parser = sade('bench', true)
  for (const [name, sentence, fallback] of flags) parser.option(`--${name}`, sentence, fallback)
  let raw: Raw = {}
  parser.action((given: Raw) => {
    raw = given
  })
  parser.parse(['node', 'bench', ...words])
  return raw
}

describe('options', () => {
  test('have defaults that hold together', () => {
    const { scenarios, clients, accounts, durationMs, signing, count } = options()
    assert.deepEqual(
      { scenarios, clients, accounts, durationMs, signing, count },
      {
        scenarios: ['full-flow'],
        clients: 16,
        accounts: 16,
        durationMs: 10_000,
        signing: 'precomputed',
        count: undefined,
      },
    )
  })

  test('never sign with keys that give themselves away to another machine', () => {
    for (const directory of ['https://ca.example.com/dir', 'https://10.0.0.1/dir', 'https://127.example.com/dir']) {
      assert.equal(options({ directory }).signing, 'openssl')
    }
  })

  test('take the name of a challenge', () => {
    assert.equal(options().challengeType, 'http-01')
    assert.equal(options({ challenge: 'accept-all-01' }).challengeType, 'accept-all-01')
    assert.throws(() => options({ challenge: 'ext:./x.js' }), /--challenge ext:\.\/x\.js: must be the name of a method/)
  })

  test('take several scenarios in turn', () => {
    assert.deepEqual(options({ scenario: 'nonce,full-flow' }).scenarios, ['nonce', 'full-flow'])
    const { scenarios, skipsUnsupported } = options({ scenario: 'all' })
    assert.equal(scenarios.length, Object.keys(SCENARIOS).length - 1)
    assert.ok(skipsUnsupported && !scenarios.includes('validation-storm'))
  })

  test('take rates of the open loop, as numbers and as parts of the maximum', () => {
    assert.deepEqual(options({ rate: '25%, 50%,1200' }).open, {
      ...{ rates: [{ ofMaximum: 0.25 }, { ofMaximum: 0.5 }, { perSecond: 1200 }], connections: 64, patienceMs: 5000 },
    })
    assert.deepEqual(options({ rate: 7 }).open.rates, [{ perSecond: 7 }])
    for (const rate of ['0', 'half', '-5', '5%%']) assert.throws(() => options({ rate }), /--rate/)
  })

  test('report everything that is wrong at once', () => {
    const wrong = {
      clients: 0,
      scenario: 'nonsense',
      directory: 'ftp://x',
      'domain-suffix': 'test',
      'ca-cert': '/no/such',
    }
    assert.throws(
      () => options(wrong),
      (error: Error) => Object.keys(wrong).every((name) => error.message.includes(`--${name} `)),
    )
  })

  test('are refused beyond what can be meant, with both bounds', () => {
    assert.throws(
      () => options({ 'http01-port': 99_999 }),
      /--http01-port 99999: must be a whole number from 0 to 65535/,
    )
    assert.throws(() => options({ compare: 'HEAD', start: true }), /--start: --compare starts this tree anyway/)
    for (const given of [
      { duration: 0 },
      { duration: 1e7 },
      { timeout: 0 },
      { clients: 1e6 },
      { rate: '2e9%' },
      { rate: 1e9 },
    ])
      assert.throws(() => options(given), new RegExp(`--${Object.keys(given)[0]} `), JSON.stringify(given))
  })

  test('of an overload are named as they are given', () => {
    const wrong = { flood: 0, calm: 0, factor: 0, 'calm-share': 2 }
    for (const [name, value] of Object.entries(wrong))
      assert.throws(
        () => parseOverloadOptions({ [name]: value }),
        new RegExp(`--${name} ${value}: must be a number from`),
      )
  })

  test('of each command have the defaults that its --help shows', () => {
    const fallbackOf = (flags: readonly Flag[], name: string) => flags.find(([known]) => known === name)?.[2]
    const { open } = parseOverloadOptions(told(OVERLOAD_FLAGS)).options
    assert.deepEqual([open.patienceMs, open.connections], [1000, 1000])
    assert.equal(fallbackOf(OVERLOAD_FLAGS, 'patience'), 1)
    assert.equal(parseOverloadOptions(told(OVERLOAD_FLAGS, '--patience', '3')).options.open.patienceMs, 3000)
    assert.equal(parseOptions(told(FLAGS)).open.patienceMs, 5000)

    for (const { options } of [parseAbuseOptions(told(ABUSE_FLAGS)), parseScaleOptions(told(SCALE_FLAGS))])
      assert.equal(options.servers.repeat, 3)
    for (const flags of [ABUSE_FLAGS, SCALE_FLAGS]) assert.equal(fallbackOf(flags, 'repeat'), 3)
    assert.equal(parseAbuseOptions(told(ABUSE_FLAGS, '--repeat', '5')).options.servers.repeat, 5)
  })

  test('given twice are refused', () =>
    assert.throws(() => options({ clients: [1, 2] }), /--clients: give it one value/))
})

describe('names of orders', () => {
  test('tell the account, and never repeat', () => {
    const next = nameMaker('b1f', '.bench-x.test')
    const names = [0, 7, 35, 36, 99_999, 7].map((index) => next(index))
    assert.deepEqual(names.map(accountIndexOf), [0, 7, 35, 36, 99_999, 7])
    assert.equal(new Set(names).size, names.length)
  })

  test('of others have no account', () => assert.ok(Number.isNaN(accountIndexOf('www.example.test'))))
})

describe('waiting between polls', () => {
  const settings = { intervalMs: 10, maxIntervalMs: 100, obeyRetryAfter: false, timeoutMs: 1000 }

  test('doubles up to its bound', () => {
    assert.deepEqual(
      [0, 1, 2, 3, 4, 40].map((attempt) => pollDelayMs(settings, attempt, undefined)),
      [10, 20, 40, 80, 100, 100],
    )
  })

  test('is bounded although Retry-After says longer, unless it is to be obeyed', () => {
    assert.equal(pollDelayMs(settings, 0, 5), 10)
    assert.equal(pollDelayMs(settings, 3, 0), 0)
    assert.equal(pollDelayMs({ ...settings, obeyRetryAfter: true }, 0, 5), 5000)
  })
})

test('shares are even and add up', () => {
  assert.deepEqual(
    [0, 1, 2].map((index) => shareOf(8, 3, index)),
    [3, 3, 2],
  )
})
