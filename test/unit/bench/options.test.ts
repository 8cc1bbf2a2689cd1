import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseOptions } from '../../../bench/options.ts'
import { accountIndexOf, nameMaker } from '../../../bench/scenario/scenario.ts'
import { SCENARIO_NAMES } from '../../../bench/scenario/table.ts'

const plan = (given: Record<string, unknown> = {}) => parseOptions(given)

describe('options', () => {
  test('take several scenarios in turn', () => {
    assert.deepEqual(plan({ scenario: 'nonce,full-flow' }).scenarios, ['nonce', 'full-flow'])
    assert.deepEqual(plan({ scenario: 'all' }).scenarios, SCENARIO_NAMES)
  })

  test('take rates of the open loop, as numbers and as parts of the maximum', () => {
    const { rates } = plan({ rate: '25%, 50%,1200' }).options
    assert.deepEqual(rates, [{ ofMaximum: 0.25 }, { ofMaximum: 0.5 }, { perSecond: 1200 }])
    assert.deepEqual(plan({ rate: 7 }).options.rates, [{ perSecond: 7 }])
    for (const rate of ['0', 'half', '-5', '5%%']) assert.throws(() => plan({ rate }), /--rate/)
  })

  test('report everything that is wrong at once', () => {
    const wrong = {
      clients: 0,
      scenario: 'nonsense',
      directory: 'ftp://x',
      'domain-suffix': 'test',
      'ca-cert': '/no/such',
      challenge: 'ext:./x.js',
      'http01-port': 99_999,
      duration: 0,
      timeout: 0,
      'server-cpus': '0;ls',
      repeat: 0,
      beside: 'boulder',
      against: 'ftp://x',
      json: '/',
      accounts: [1, 2],
    }
    assert.throws(
      () => plan(wrong),
      ({ message }: Error) => Object.keys(wrong).every((name) => new RegExp(`--${name}[ :]`).test(message)),
    )
  })

  test('of a server that runs are refused for one that the bench starts', () => {
    for (const given of [{ directory: 'https://localhost/x' }, { 'server-pid': 1 }, { insecure: true }])
      assert.throws(() => plan({ compare: 'v1', ...given }), /--compare and --start start services themselves/)
    assert.throws(() => plan({ workers: 2 }), /--workers and --server-cpus are for/)
    assert.throws(() => plan({ compare: '' }), /--compare: name a commit/)
  })

  test('of several servers load each three times, and give those beside their clients', () => {
    const { start, compare, repeat, options } = plan({ compare: 'v1', 'server-cpus': '0-2' })
    assert.deepEqual([start, compare, repeat, options.serverCpus, options.pids], [true, 'v1', 3, '0-2', []])
    const beside = [
      { name: 'pebble', clients: 8 },
      { name: 'caddy', clients: undefined },
    ]
    assert.deepEqual(plan({ beside: 'pebble=8,caddy' }).beside, beside)
    assert.deepEqual(plan({ against: 'https://a.test/d,http://b.test/d' }).against.length, 2)
  })
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
