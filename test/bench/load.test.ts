/** Open loop, overload, abuse and several servers as users start them, against servers that know nothing but a directory. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readDocument, resultsIn } from '../support/bench-document.ts'

const MAIN = path.resolve(import.meta.dirname, '../../bench/main.js')

const folder = mkdtempSync(path.join(tmpdir(), 'bench-load-'))
const file = path.join(folder, 'out.json')
const page = path.join(folder, 'out.html')
const servers: Server[] = []
/** Requests that may be at work at once in the busy server; more are refused. */
const PLACES = 2
let [calm, busy, silent] = ['', '', '']

async function listen(handle: RequestListener): Promise<string> {
  const server = createServer(handle)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/directory`
}

const DIRECTORY = JSON.stringify({ newNonce: 'http://x/n', newAccount: 'http://x/a', newOrder: 'http://x/o' })

before(async () => {
  calm = await listen((_, response) => response.end(DIRECTORY))
  let atWork = 0
  busy = await listen((_, response) => {
    if (atWork >= PLACES) {
      response.writeHead(503, { 'Retry-After': '2' }).end('{}')
      return
    }
    atWork++
    setTimeout(() => {
      atWork--
      response.end(DIRECTORY)
    }, 20)
  })
  let asked = 0
  // It answers what a run begins with, and nothing more.
  silent = await listen((_, response) => asked++ < 1 && response.end(DIRECTORY))
})
after(() => {
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  rmSync(folder, { recursive: true })
})

function bench(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const common = ['--scenario', 'directory', '--json', file, '--html', page, '--clients', '2', '--warmup', '0']
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args, ...common], { timeout: 60_000 }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
  })
}

test('a rate is offered whatever the server does, and what it refuses is not tried again', async () => {
  const { code, stdout, stderr } = await bench(
    '--directory',
    busy,
    '--rate',
    '400',
    '--duration',
    '1.5',
    '--connections',
    '30',
  )
  assert.equal(code, 0, stderr)
  assert.match(stdout, /open loop at 400 per second, at most 30 connections/)
  assert.match(stdout, /refused with 503 and Retry-After/)
  assert.match(stdout, /503 to directory/)
  const [result] = resultsIn(file)
  assert.ok(result && result.refused > 100, `${result?.refused} refused`)
  assert.equal(result.offered, result.succeeded + result.failed + result.refused + result.dropped)
  assert.deepEqual(result.load, {
    ...{ kind: 'open', perSecond: 400, connections: 30, patienceSeconds: 5 },
  })
  const inSeries = result.series.slots.reduce((sum, { succeeded, refused }) => sum + succeeded + refused, 0)
  assert.equal(inSeries, result.succeeded + result.refused)
  assert.match(readFileSync(page, 'utf8'), /^<!doctype html>[\s\S]*Latency by step/)
})

test('a sweep goes through parts of the maximum that it finds itself', async () => {
  const { code, stderr } = await bench('--directory', busy, '--rate', '25%,50%', '--duration', '1')
  assert.equal(code, 0, stderr)
  const [closed, quarter, half] = resultsIn(file)
  assert.ok(closed && quarter?.load.kind === 'open' && half?.load.kind === 'open')
  assert.deepEqual([quarter.load.ofMaximum, half.load.ofMaximum], [0.25, 0.5])
  assert.equal(half.load.perSecond, closed.perSecond / 2)
  assert.match(readFileSync(page, 'utf8'), /directory: latency against rate/)
})

test('rounds of one server end in medians and their range', async () => {
  const { code, stdout, stderr } = await bench('--directory', calm, '--repeat', '3', '--count', '20')
  assert.equal(code, 0, stderr)
  assert.match(stderr, /round 3 of 3, directory: measuring/)
  assert.match(stdout, /median +lowest–highest\nper second/)
  const [measured] = readDocument(file).measurements
  assert.deepEqual([measured?.rounds.length, measured?.figures.perSecond?.servers.length], [3, 1])
})

test('a server that answers no more is reported and the others go on', async () => {
  const against = ['--against', `${silent},name=Silent,clients=1`, '--against', `${busy},name=Busy`]
  const times = ['--repeat', '2', '--duration', '0.3', '--timeout', '0.5']
  const { code, stdout, stderr } = await bench('--directory', calm, ...against, ...times)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^B {2}Silent$/m)
  assert.match(stdout, /^B: broken in 2 of 2 rounds: /m)
  const { servers: subjects, measurements } = readDocument(file)
  assert.deepEqual(
    subjects.map(({ name }) => name),
    [calm, 'Silent', 'Busy'],
  )
  const ratios = measurements[0]?.figures.perSecond?.ratios
  assert.ok(ratios?.[2] && !ratios[1], JSON.stringify(ratios))
})

describe('an overload', () => {
  test('tells goodput, refusals and recovery in one run', async () => {
    const parts = ['--calm', '2', '--flood', '2', '--duration', '1', '--connections', '40']
    const { code, stdout, stderr } = await bench('overload', '--directory', busy, ...parts)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /goodput .* of the maximum/)
    const [result] = readDocument(file).overload
    assert.ok(result && result.flood.refused > 0 && result.refusedShare > 0.1, JSON.stringify(result?.flood))
    assert.ok(result.goodputShare > 0.3, `${result.goodputShare}`)
    assert.equal(result.run.series.slotSeconds, 0.2)
    assert.match(readFileSync(page, 'utf8'), /What became of the arrivals/)
  })
})

describe('abuse', () => {
  test('is measured as what is left to the others', async () => {
    const attack = [
      '--abuse',
      'slowloris,huge-bodies,connections',
      '--abuser-connections',
      '10',
      '--abuser-pause',
      '100',
    ]
    const times = ['--repeat', '1', '--duration', '0.5']
    const { code, stdout, stderr } = await bench('abuse', '--directory', calm, ...attack, ...times)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /the others keep \d+ % of their throughput/)
    const results = readDocument(file).abuse
    assert.deepEqual(
      results.map(({ kind }) => kind),
      ['slowloris', 'huge-bodies', 'connections'],
    )
    for (const { kind, abuser, others } of results) {
      assert.ok((abuser[0]?.opened ?? 0) >= 10, `${kind}: ${JSON.stringify(abuser)}`)
      assert.ok(others.figures.perSecond?.ratios[1])
    }
    assert.ok((results[1]?.abuser[0]?.sentBytes ?? 0) > 100_000)
  })

  test('of an unknown kind is refused', async () => {
    const { code, stderr } = await bench('abuse', '--abuse', 'nonsense')
    assert.equal(code, 2)
    assert.match(stderr, /--abuse nonsense: not one of connections, /)
  })
})
