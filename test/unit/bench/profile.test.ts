/** From profiles to the tables of `bench profile`. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allocationShares, cpuShares } from '../../../bench/profile/attribute.ts'
import type { CallFrame } from '../../../bench/profile/capture.ts'
import { placeOfThread, rowsByPart, topFunctions } from '../../../bench/profile/costs.ts'
import { GARBAGE, OTHER, partOf, placeOf } from '../../../bench/profile/parts.ts'

const frame = (functionName: string, url = ''): CallFrame => ({ functionName, url })
const ours = (functionName: string, file: string) => frame(functionName, `file:///srv/chancery/dist/${file}`)

describe('the part of a sample', () => {
  test('is that of the innermost frame that a rule knows', () => {
    const stack = [
      frame('write', 'node:buffer'),
      frame('from', 'node:buffer'),
      ours('parseJws', 'src/shared/protocol/jws.js'),
      ours('runEndpoint', 'src/acme/endpoint.js'),
    ]
    assert.equal(partOf(stack), 'JWS and JSON parsing')
    assert.equal(partOf(stack.slice(3)), 'gate: accounts, limits, URLs')
  })

  test('tells verifications apart by who asked for them', () => {
    const verify = [frame('run'), frame('verifyOneShot', 'node:internal/crypto/sig')]
    const ofPki = [...verify, ours('verifySignature', 'src/shared/pki/signature.js')]
    assert.equal(
      partOf([...verify, ours('verifySignature', 'src/shared/protocol/jws-algorithms.js')]),
      'verify: request',
    )
    assert.equal(partOf([...ofPki, ours('verifyCsrSignature', 'src/shared/pki/csr.js')]), 'verify: CSR')
    assert.equal(partOf([...ofPki, ours('requireSignature', 'src/ca/signer-backend.js')]), 'verify: new certificate')
  })

  test('tells writes to PostgreSQL from the work of its client', () => {
    const client = frame('query', '/x/node_modules/pg/lib/client.js')
    assert.equal(partOf([frame('writev'), frame('_writev', 'node:net'), client]), 'PostgreSQL client: socket writes')
    assert.equal(partOf([frame('slice', 'node:buffer'), client]), 'PostgreSQL client')
  })

  test('is one of Node when nobody else is on the stack, and otherwise other', () => {
    assert.equal(
      partOf([frame('onStreamRead', 'node:internal/stream_base_commons'), frame('(root)')]),
      'sockets of Node: reads and life cycle',
    )
    assert.equal(partOf([frame('(garbage collector)'), frame('(root)')]), GARBAGE)
    assert.equal(partOf([frame('mystery'), frame('(root)')]), OTHER)
  })

  test('does not depend on where the tree lies', () => {
    assert.equal(placeOf('file:///a/dist/b/dist/src/http/uws.js'), 'src/http/uws.js')
    assert.equal(placeOf('/a/node_modules/x/node_modules/pg-protocol/dist/parser.js'), 'pg-protocol/dist/parser.js')
    assert.equal(placeOf('node:net'), 'node:net')
  })
})

describe('shares', () => {
  test('leave out the time in which a thread had nothing to do', () => {
    const shares = cpuShares({
      nodes: [
        { id: 1, callFrame: frame('(root)'), children: [2, 3] },
        { id: 2, callFrame: frame('(idle)'), hitCount: 900 },
        { id: 3, callFrame: ours('parseJws', 'src/shared/protocol/jws.js'), hitCount: 60, children: [4] },
        { id: 4, callFrame: frame('mystery'), hitCount: 40 },
      ],
    })
    assert.equal(shares.total, 100)
    assert.deepEqual([...shares.parts], [['JWS and JSON parsing', 100]])
    assert.equal(shares.functions.get('mystery ← parseJws src/shared/protocol/jws.js [JWS and JSON parsing]'), 40)
  })

  test('of allocations are bytes', () => {
    const shares = allocationShares({
      callFrame: frame('(root)'),
      selfSize: 0,
      children: [{ callFrame: frame('mystery'), selfSize: 512, children: [] }],
    })
    assert.deepEqual([...shares.otherFunctions], [['mystery', 512]])
  })

  test('become costs in proportion to what their thread used', () => {
    const shares = cpuShares({
      nodes: [
        { id: 1, callFrame: frame('(root)'), children: [2, 3] },
        { id: 2, callFrame: frame('mystery'), hitCount: 30 },
        { id: 3, callFrame: ours('parseJws', 'src/shared/protocol/jws.js'), hitCount: 10 },
      ],
    })
    const threads = [
      { place: 'fronts', shares, amount: 400 },
      { place: 'main', shares, amount: 40 },
    ] as const
    const rows = rowsByPart(threads)
    assert.deepEqual(
      rows.map(({ name, total }) => [name, total]),
      [
        ['JWS and JSON parsing', 110],
        [OTHER, 330],
      ],
    )
    assert.deepEqual(rows[0]?.places, { fronts: 100, main: 10, validation: 0, signer: 0 })
    assert.deepEqual(topFunctions(threads, 'otherFunctions', 5), [['mystery', 330]])
  })

  test('belong to the place of their thread', () => {
    const place = (pid: number, title: string) => placeOfThread({ pid, title, url: '' }, 7)
    assert.equal(place(7, '[worker 3] front-1'), 'fronts')
    assert.equal(place(7, ''), 'main')
    assert.equal(place(7, '[worker 1]'), 'validation')
    assert.equal(place(8, ''), 'signer')
  })
})
