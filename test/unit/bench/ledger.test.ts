import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Category, categoryOf, type Request, requestOf } from '../../../bench/ledger/categories.ts'
import { entriesOf, functionsOf, requestMicros, sumOf, threadOf } from '../../../bench/ledger/ledger.ts'
import { exportsOf, type Frame, type Stack, stacksOf } from '../../../bench/ledger/profile.ts'

/** A frame from `name file owner`; native code has no file. */
function frame(text: string): Frame {
  const [name = '', file = '', owner = ''] = text.split(' ')
  return { name, file, line: 1, owner }
}
const stack = (micros: number, ...frames: string[]): Stack => ({ micros, frames: frames.map(frame) })

describe('a CPU profile', () => {
  const callFrame = (functionName: string) => ({ functionName, url: '', lineNumber: 0, columnNumber: 0 })
  const nodes = [
    { id: 1, callFrame: callFrame('(root)'), children: [2, 3] },
    { id: 2, callFrame: callFrame('(idle)') },
    { id: 3, callFrame: callFrame('outer'), children: [4] },
    { id: 4, callFrame: callFrame('inner') },
  ]
  const profile = { nodes, samples: [2, 4, 4, 2, 3, 4, 2, 3], timeDeltas: [9, 10, 10, 9, 11, 10, 10, 30] }
  const stacks = stacksOf({ pid: 1, threadId: 1, isMain: true, cpuMicros: 400, profile }, ({ functionName }) =>
    frame(functionName),
  )

  test('shares the CPU time of its thread among the samples that are neither idle nor late', () => {
    assert.deepEqual(
      stacks.map(({ frames, micros }) => [frames.map(({ name }) => name).join(), micros]),
      [
        ['inner,outer,(root)', 300],
        ['outer,(root)', 100],
      ],
    )
  })

  test('names the exported thing that a line belongs to', () => {
    const text = 'const a = 1\nexport const order = {\n}\nexport async function find() {\n'
    assert.deepEqual(exportsOf(text), [
      { line: 2, name: 'order' },
      { line: 4, name: 'find' },
    ])
  })
})

describe('the category of a stack', () => {
  const cases: [Category, ...string[]][] = [
    [
      'jws',
      'run',
      'verifyOneShot node:internal/crypto/sig',
      'verifySignature src/shared/protocol/jws.ts',
      'run src/front/front.ts',
    ],
    ['csr', 'verifySignature src/shared/pki/algorithms.ts', 'verifyCsrSignature src/shared/pki/csr.ts'],
    ['signature', 'verifySignature src/shared/pki/algorithms.ts', 'requireSignature src/ca/signer-backend.ts'],
    [
      'sign',
      'run',
      'signOneShot node:internal/crypto/sig',
      'sign signer/keys/load-key.ts',
      'make signer/methods/handlers.ts',
    ],
    ['statement', 'writev', 'Socket._writev node:net', 'runGroup src/store/pipeline.ts'],
    ['messages', 'postMessage', '#send src/runtime/port.ts', 'processImmediate node:internal/timers'],
    ['http', 'collect', 'finish src/http/reply-writer.ts', 'runMicrotasks'],
    ['render', 'stringify', 'renderOrder src/acme/orders.ts', 'handle src/acme/orders.ts'],
    ['rules', 'handle src/acme/orders.ts'],
    ['overload', 'insert node:internal/timers', 'setTimeout node:timers'],
    ['native', 'runMicrotasks', 'processTicksAndRejections node:internal/process/task_queues'],
    ['native', '(program)', '(root)'],
    ['collector', '(garbage', '(root)'],
  ]
  for (const [category, ...frames] of cases)
    test(`${frames[0]} below ${frames.slice(1).join(' and ') || 'nothing'} is ${category}`, () => {
      const named = frames.map((text) =>
        text === '(garbage' ? { ...frame(''), name: '(garbage collector)' } : frame(text),
      )
      assert.equal(categoryOf(named), category)
    })
})

describe('the request of a stack', () => {
  const cases: [Request | undefined, ...string[]][] = [
    ['finalize', 'checkIdentifiers src/domain/identifier-policy.ts', 'handle src/acme/orders.ts finalize'],
    ['order', 'renderOrder src/acme/orders.ts renderOrder', 'handle src/acme/orders.ts order'],
    ['new-order', '#makeOrder src/services/ordering.ts Ordering', 'runMicrotasks'],
    ['challenge', 'recordOf src/services/attempt-result.ts', 'runMicrotasks'],
    [undefined, 'authenticate src/acme/gate.ts runEndpoint'],
  ]
  for (const [request, ...frames] of cases)
    test(`${frames.join(' below ')} is ${request ?? 'not told'}`, () => {
      assert.equal(requestOf(frames.map(frame)), request)
    })
})

describe('a ledger', () => {
  const stacks = [
    stack(30, 'run', 'verifySignature src/shared/protocol/jws.ts'),
    stack(10, 'build src/services/issuance.ts'),
    stack(60, 'look /tmp/probe.cjs'),
  ]
  const share = { thread: 'front', micros: 200, stacks } as const

  test('gives a thread its time without a profile, and the probe nothing', () => {
    const entries = entriesOf(share)
    assert.deepEqual(
      [sumOf(entries), sumOf(entries, { category: 'jws' }), sumOf(entries, { request: 'finalize' })],
      [200, 150, 50],
    )
  })

  test('shares what no stack attributes among the seven requests of a flow', () => {
    const { own, shared } = requestMicros(entriesOf(share), 'finalize')
    assert.deepEqual([own, Math.round(shared)], [50, 21])
  })

  test('names native code with its caller', () => {
    assert.equal(functionsOf(share)[0]?.name, 'run of verifySignature src/shared/protocol/jws.ts:1')
  })

  test('tells threads apart by what runs in them', () => {
    assert.equal(threadOf([stack(1, 'a src/acme/gate.ts')], false), 'front')
    assert.equal(threadOf([stack(1, 'a signer/policy.ts')], true), 'signer')
    assert.equal(threadOf([stack(1, 'a src/store/pipeline.ts')], true), 'supervisor')
    assert.equal(threadOf([stack(1, 'a workers/task.ts')], false), 'validation')
  })
})
