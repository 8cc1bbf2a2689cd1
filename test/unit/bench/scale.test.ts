import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { BusiestThreads } from '../../../bench/measure/busy-threads.ts'
import type { CpuByRole } from '../../../bench/measure/server-cpu.ts'
import { parseScaleOptions } from '../../../bench/options/scale.ts'
import { countCpus } from '../../../bench/options/servers.ts'
import type { Result } from '../../../bench/report/result.ts'
import { meetingPoint } from '../../../bench/scale/meeting.ts'
import { configurationsOf, pointOf, reckonScale } from '../../../bench/scale/result.ts'
import { renderScale } from '../../../bench/scale/text.ts'
import { instanceConfig } from '../../../bench/servers/instances.ts'
import { parseConfigText } from '../../../src/config/load.ts'
import { aResult } from '../../support/bench-result.ts'

interface Run {
  perSecond: number
  succeeded?: number
  p99?: number
  server: CpuByRole
  generator?: number
  busiest?: BusiestThreads
}

function measured({ perSecond, succeeded = 1, p99 = 2, server, generator = 0, busiest }: Run): Result {
  const result = aResult({ perSecond, floor: 500 })
  const serverTotal = Object.values(server).reduce((sum, micros) => sum + micros, 0)
  return {
    ...{ ...result, succeeded, latency: { ...result.latency, p99 } },
    cpu: { server, serverTotal, generator, responder: 0 },
    busiest,
  }
}

/** Without generators on them. */
const FOUR = { count: 4, areShared: false }

describe('the configurations of bench scale', () => {
  test('are one instance with each number of fronts, and what several instances are to be compared with', () => {
    const configurations = configurationsOf({ fronts: [1, 3], instances: 2 })
    assert.deepEqual(
      configurations.map(({ instances, fronts, keptIn, comparedWith }) => [instances, fronts, keptIn, comparedWith]),
      [
        [1, 1, 'memory', undefined],
        [1, 3, 'memory', 0],
        [1, 1, 'database', 0],
        [2, 1, 'database', 2],
      ],
    )
    assert.equal(configurationsOf({ fronts: [1, 2], instances: 0 }).length, 2)
  })

  test('come from options that are told when they are wrong', () => {
    const { options, scale } = parseScaleOptions({ clients: 8, 'server-cpus': '0-2' })
    assert.deepEqual(scale, { fronts: [1, 2, 3], instances: 2 })
    assert.deepEqual([options.servers.start, options.servers.repeat, options.clients], [true, 3, 8])
    assert.deepEqual(parseScaleOptions({ fronts: 2, instances: 0, repeat: 1 }).scale, { fronts: [2], instances: 0 })
    for (const fronts of ['0', '1,1', 'x', '1,,2']) assert.throws(() => parseScaleOptions({ fronts }), /--fronts/)
    assert.throws(() => parseScaleOptions({ instances: 1 }), /--instances 1/)
    assert.throws(() => parseScaleOptions({ instances: 4, clients: 2 }), /--clients 2: fewer than --instances 4/)
    assert.throws(() => parseScaleOptions({ fronts: '16,17' }), /more connections than/)
  })
})

describe('instances that are loaded at once', () => {
  test('add up: rates, CPU by certificates, PostgreSQL once; the slowest decides p99', () => {
    const point = pointOf(
      [
        measured({ perSecond: 100, succeeded: 300, p99: 20, server: { service: 1000, signer: 100, postgres: 800 } }),
        measured({ perSecond: 50, succeeded: 100, p99: 30, server: { service: 2000, signer: 300 } }),
      ],
      FOUR,
    )
    assert.deepEqual([point.perSecond, point.p99Ms], [150, 30])
    // 300 certificates at 1,000 µs and 100 at 2,000; PostgreSQL's 300 × 800 µs are those of all 400.
    assert.deepEqual(point.cpu, { service: 1250, signer: 150, postgres: 600 })
    assert.deepEqual([point.floors, point.cores, point.perCore], [4, 0.3, 500])
  })

  test('have no figures for each core where their CPU is not known', () => {
    const { cores, perCore, floors } = pointOf([{ ...aResult({ perSecond: 100 }), cpu: undefined }], FOUR)
    assert.deepEqual([cores, perCore, floors], [undefined, undefined, undefined])
  })

  test('wait for each other, and for nobody who will not come', async () => {
    const order: string[] = []
    const meeting = meetingPoint(2)
    const early = meeting.arrive().then(() => order.push('early goes on'))
    await Promise.resolve()
    order.push('late comes')
    await Promise.all([meeting.arrive(), early])
    assert.deepEqual(order, ['late comes', 'early goes on'])

    const broken = meetingPoint(2)
    const alone = broken.arrive()
    broken.open()
    await alone
  })
})

describe('the table of bench scale', () => {
  const configurations = configurationsOf({ fronts: [1, 2], instances: 2 })
  const one = (perSecond: number, micros: number) => [measured({ perSecond, server: { service: micros } })]
  const round = (hour: number) => [
    one(100 / hour, 1000 * hour),
    one(180 / hour, 1250 * hour),
    one(90 / hour, 2000 * hour),
    [...one(80 / hour, 2500 * hour), ...one(60 / hour, 2500 * hour)],
  ]

  test('takes ratios within a round, so that the hour of the machine cancels', () => {
    const rows = reckonScale(configurations, [round(1), round(2), round(3)], FOUR)
    assert.deepEqual(
      rows.map(({ ratio }) => ratio?.median),
      [undefined, 0.8, 0.5, 0.8],
    )
    assert.deepEqual(rows[0]?.perCore, { median: 500, lowest: 1000 / 3, highest: 1000 })
    assert.equal(rows[3]?.perSecond?.median, 70)
  })

  test('is Markdown, and names what each row is compared with', () => {
    const text = renderScale(reckonScale(configurations, [round(1)], FOUR), 1)
    const table = text.split('\n').filter((line) => line.startsWith('|'))
    assert.equal(table.length, 6)
    assert.ok(table.every((line) => line.split('|').length === table[0]?.split('|').length))
    assert.equal(table[2], '| A: 1 front | 100 | 2.00 | service 1000 | 2.00 | 0.10 | 1000 | – | processors, 3 % |')
    assert.match(text, /^\| D: 2 instances, 1 front each \| 140 \|.*\| 0\.80 of C \| processors, 9 % \|$/m)
    assert.equal(renderScale(reckonScale(configurations, [], FOUR), 1), 'no whole round\n')
  })

  test('is followed by what failed', () => {
    const broken = [
      [{ ...measured({ perSecond: 1, server: {} }), failures: [{ kind: 'timeout', count: 3, example: 'x' }] }],
    ]
    assert.match(
      renderScale(reckonScale(configurations.slice(0, 1), [broken], FOUR), 1),
      /^A: 3 failed, such as timeout: x$/m,
    )
  })
})

describe('the fullest part', () => {
  const configurations = configurationsOf({ fronts: [1], instances: 0 })
  const [rate, micros] = [100, 10_000]
  const rounds = (...busiest: BusiestThreads[]) =>
    busiest.map((one) => [[measured({ perSecond: rate, server: { service: micros }, generator: 5_000, busiest: one })]])
  const fullestOf = (loaded: Result[][][], processors = FOUR) => reckonScale(configurations, loaded, processors)[0]

  test('is the busiest thread, by the median of the rounds', () => {
    const row = fullestOf(
      rounds({ front: 0.97, main: 0.4, postgres: 0.3 }, { front: 0.5, main: 0.6 }, { front: 0.96, main: 0.5 }),
    )
    assert.deepEqual(row?.fullest, { limit: 'front', busy: 0.96 })
    assert.deepEqual(row.busy.main, { median: 0.5, lowest: 0.4, highest: 0.6 })
    assert.match(renderScale(row ? [row] : [], 1), / \| front thread, 96 % \|$/m)
  })

  test('is that of the busiest instance', () => {
    const instances = [{ front: 0.5, signer: 0.7 }, { front: 0.9 }]
    const results = instances.map((busiest) => measured({ perSecond: rate, server: { service: 1 }, busiest }))
    assert.deepEqual(pointOf(results, FOUR).busy, { front: 0.9, signer: 0.7, processors: 0.0002 / 4 })
  })

  test('is the processors, once nine tenths of them are in use or nobody is busier', () => {
    // 100 certificates a second of 10 ms keep one processor busy.
    const front = { front: 0.99 }
    assert.deepEqual(fullestOf(rounds(front), { count: 1, areShared: false })?.fullest, {
      ...{ limit: 'processors', busy: 1 },
    })
    assert.equal(fullestOf(rounds(front), { count: 2, areShared: false })?.fullest?.limit, 'front')
    assert.equal(fullestOf(rounds({ front: 0.4 }), { count: 2, areShared: false })?.fullest?.limit, 'processors')
  })

  test('takes in what generators use of the same processors', () => {
    assert.equal(fullestOf(rounds({}), { count: 2, areShared: false })?.busy.processors?.median, 0.5)
    assert.equal(fullestOf(rounds({}), { count: 2, areShared: true })?.busy.processors?.median, 0.75)
  })

  test('is not told where nothing could be looked at', () => {
    const row = reckonScale(configurations, [[[{ ...measured({ perSecond: 1, server: {} }), cpu: undefined }]]], FOUR)
    assert.deepEqual([row[0]?.busy, row[0]?.fullest], [{}, undefined])
  })

  test('is of as many processors as their list names', () => {
    assert.deepEqual(['0-2', '3', '0,2', '0-1,1-3'].map(countCpus), [3, 1, 2, 4])
  })
})

describe('generators that share a processor', () => {
  const busy = (generatorCores: number) => ({ ...measured({ perSecond: 1, server: { service: 1 } }), generatorCores })
  const configurations = configurationsOf({ fronts: [1], instances: 2 })
  const rows = reckonScale(configurations, [[[busy(0.5)], [busy(0.5)], [busy(0.5), busy(0.5)]]], FOUR)

  test('may be the limit together where none is alone', () => {
    assert.match(
      renderScale(rows, 1),
      /^C: the generators together used 1\.00 of 1 processors; they may be the limit$/m,
    )
    assert.doesNotMatch(renderScale(rows, 2), /limit/)
  })
})

describe('the configuration of an instance', () => {
  test('is that of its host but for what two services cannot share', () => {
    const host = `
server: {external_url: "https://localhost:1", port: 1, bind: 127.0.0.1, tls: {cert_path: /h/c, key_path: /h/k, self_issued_names: [localhost]}}
database: {host: /run/x, port: 5432, database: chancery, user: chancery, sslmode: disable, auto_setup: true}
ca: {internal: {root_cert_path: /h/ca.pem, root_key_path: /h/ca.key}, signer: {audit_file: /h/audit}}
challenges: {enabled: [http-01, dns-01], http01: {port: 2, blocked_networks: [fe80::/10]}, tlsalpn01: {port: 3}}
dns: {zones: [{zone: test, addresses: [127.0.0.1], resolvers: ["127.0.0.1:4"]}, {zone: localhost, addresses: [127.0.0.1]}]}
`
    const text = instanceConfig(host, {
      ...{ name: 'd-1', database: 'scale_3', fronts: 2, keptIn: 'database', cpus: undefined, dataDir: '/d', port: 11 },
      responders: { host: '127.0.0.1', http01Port: 12, tlsAlpn01Port: 13, dnsPort: 14 },
    })
    const parsed = parseConfigText(text, { format: 'json', env: {} })
    assert.ok(parsed.ok, JSON.stringify(parsed))
    const { server, database, challenges, dns, nonce, security, ca } = parsed.config
    assert.deepEqual([server.port, server.external_url, server.workers], [11, 'https://localhost:11', 2])
    assert.deepEqual([database.database, database.host], ['scale_3', '/run/x'])
    assert.deepEqual([challenges.http01.port, challenges.tlsalpn01.port], [12, 13])
    assert.deepEqual(challenges.http01.blocked_networks, ['fe80::/10'])
    assert.deepEqual(dns.zones[0]?.resolvers, ['127.0.0.1:14'])
    assert.deepEqual([nonce.store, security.rate_limits.backend], ['database', 'database'])
    assert.equal(ca.signer.audit_file, '/d/signer-audit.jsonl')
  })
})
