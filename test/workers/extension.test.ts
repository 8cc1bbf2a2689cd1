/** Validator modules: what refuses the start, and that nothing a module does makes a challenge valid by accident. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { createValidationPools, type ValidationPools } from '../../src/validation/jobs.ts'
import type { ValidatorModule } from '../../workers/extension/extension-contract.ts'
import { BrokenValidator, probeValidators } from '../../workers/extension/extension-probe.ts'
import type { ExtensionJob, ValidationVerdict } from '../../workers/job.ts'
import { WAIT_MS } from '../support/patience.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const FIXTURES = path.join(ROOT, 'test/fixtures/extensions')
const aModule = (file: string, exportName = 'default'): ValidatorModule => {
  const module = path.resolve(FIXTURES, file)
  return { module, exportName, url: pathToFileURL(module).href }
}

const job = (behaviour: string, over: Partial<ExtensionJob['challenge']> = {}): ExtensionJob => {
  const challenge = {
    type: 'faulty-01',
    identifier: { type: 'dns' as const, value: `${behaviour}.example` },
    wildcard: false,
    token: 'token',
    keyAuthorization: 'token.thumbprint',
    accountUrl: 'https://acme.example/acct/1',
    timeoutMs: WAIT_MS,
    ...over,
  }
  return { type: 'extension', challenge, timeoutMs: challenge.timeoutMs }
}

describe('the check of modules at start', () => {
  const probe = (modules: ValidatorModule[], settings = {}, timeoutMs = WAIT_MS) =>
    probeValidators({ modules, settings }, timeoutMs)

  test('says what each module is, in their order', async () => {
    const modules = [
      aModule('faulty.mjs', 'Faulty'),
      aModule('common.cjs', 'Common'),
      aModule('faulty.mjs', 'Settings'),
      aModule(path.join(ROOT, 'bench/accept-all.mjs')),
    ]
    assert.deepEqual(await probe(modules, { 'settings-01': { word: 'right' } }), [
      { type: 'faulty-01', wildcard: false, ip: false },
      { type: 'common-01', wildcard: false, ip: false },
      { type: 'settings-01', wildcard: false, ip: true },
      { type: 'accept-all-01', wildcard: true, ip: true },
    ])
  })

  const broken: [file: string, exportName: string, reason: RegExp][] = [
    ['absent.mjs', 'default', /Cannot find module/],
    ['syntax.mjs', 'default', /^SyntaxError: /],
    ['throws.mjs', 'default', /^cannot start$/],
    ['faulty.mjs', 'Absent', /^exports no Absent$/],
    ['faulty.mjs', 'default', /^exports no default$/],
    ['faulty.mjs', 'NoType', /^needs a static type/],
    ['faulty.mjs', 'OddType', /^needs a static type/],
    ['faulty.mjs', 'OddFlag', /^has a static wildcard or ip that is neither/],
    ['faulty.mjs', 'NoMethod', /^is no class with a method validate$/],
    ['faulty.mjs', 'anObject', /^is no class with a method validate$/],
    ['faulty.mjs', 'Settings', /^TypeError: word must be right$/],
    ['exits.mjs', 'default', /^ended the thread that loaded it \(exit code 0\)$/],
    ['grows.mjs', 'default', /^broke the thread that loaded it: .*memory/],
  ]
  for (const [file, exportName, reason] of broken)
    test(`refuses ${file}#${exportName}, and says which module it is`, async () => {
      const refusal = await probe([aModule('faulty.mjs', 'Faulty'), aModule(file, exportName)]).catch((error) => error)
      assert.ok(refusal instanceof BrokenValidator, String(refusal))
      assert.equal(refusal.index, 1)
      assert.match(refusal.message, reason)
    })

  for (const file of ['spins.mjs', 'waits.mjs'])
    test(`a module that does not finish loading is given up (${file})`, async () => {
      await assert.rejects(probe([aModule(file)], {}, 500), {
        index: 0,
        message: 'has not finished loading after 0.5 seconds',
      })
    })
})

describe('modules at work', () => {
  let pools: ValidationPools
  const errors: Error[] = []
  before(() => {
    const modules = [
      { ...aModule('faulty.mjs', 'Faulty'), type: 'faulty-01' },
      { ...aModule('faulty.mjs', 'Settings'), type: 'settings-01' },
      { ...aModule('absent.mjs'), type: 'absent-01' },
    ]
    pools = createValidationPools(
      { enabled: [], extensions: { modules, settings: { 'settings-01': { word: 'right' } } } },
      false,
      { threads: 1, concurrentTasksPerThread: 10, maxQueue: 10 },
      (error) => errors.push(error),
    )
  })
  after(() => pools.close(0))

  const verdicts: [behaviour: string, verdict: ValidationVerdict][] = [
    ['good', { ok: true, evidence: [{ step: 'looked', at: 'nothing' }] }],
    ['short', { ok: true, evidence: [], validForSeconds: 60 }],
    ['bad', { ok: false, problem: 'unauthorized', detail: 'not yours', retryable: false, evidence: [] }],
    ['dns', { ok: false, problem: 'dns', detail: 'line? one?two', retryable: true, evidence: [] }],
  ]
  for (const [behaviour, verdict] of verdicts)
    test(`a verdict comes back as it was given: ${behaviour}`, async () => {
      assert.deepEqual(await pools.validate(job(behaviour)), verdict)
    })

  test('a module is told what it needs to decide, and nothing else', async () => {
    const verdict = await pools.validate(job('echo', { wildcard: true }))
    assert.ok(!verdict.ok)
    assert.deepEqual(JSON.parse(verdict.detail), job('echo', { wildcard: true }).challenge)
    const environment = await pools.validate(job('environment'))
    const names = environment.evidence[0]?.['names'] as string[]
    assert.deepEqual(
      names.filter((name) => name !== 'NODE_V8_COVERAGE'),
      [],
    )
  })

  test('a validator is made with its settings', async () => {
    const verdict = await pools.validate(job('any', { type: 'settings-01' }))
    assert.equal(!verdict.ok && verdict.detail, 'right')
  })

  test('what a module approves of counts only when the CAA records can be read and permit it', async () => {
    const caa = {
      subjects: [{ name: 'good.example', wildcard: false, method: 'faulty-01' }],
      identities: ['ca.example'],
      accountUri: 'https://acme.example/acct/1',
      unreachableOk: [],
      timeoutMs: 1_000,
      dns: { resolvers: ['127.0.0.1:1'], zones: [], timeoutMs: 200, retries: 0 },
    }
    const verdict = await pools.validate({ ...job('good'), caa })
    assert.deepEqual([verdict.ok, verdict.caa], [false, 'failed'])
    assert.deepEqual(verdict.evidence[0], { step: 'looked', at: 'nothing' })
    const excepted = await pools.validate({ ...job('good'), caa: { ...caa, unreachableOk: ['example'] } })
    assert.deepEqual([excepted.ok, excepted.caa], [true, 'excepted'])
    assert.equal((await pools.validate({ ...job('bad'), caa })).caa, undefined, 'nobody is asked for nothing')
  })

  async function assertNoVerdict(behaviour: string, detail: RegExp, over = {}): Promise<void> {
    const verdict = await pools.validate(job(behaviour, over))
    assert.ok(!verdict.ok, behaviour)
    assert.equal(verdict.problem, 'serverInternal')
    assert.equal(verdict.retryable, true)
    assert.match(verdict.detail, detail)
    assert.doesNotMatch(verdict.detail, /secret/, 'what a module throws is for the log')
  }

  for (const behaviour of ['throws', 'rejects', 'unknown'])
    test(`a validator that throws has decided nothing: ${behaviour}`, () =>
      assertNoVerdict(behaviour, /^the validator of faulty-01 failed$/))

  test('what it threw stands in the evidence', async () => {
    const { evidence } = await pools.validate(job('throws'))
    assert.deepEqual(evidence, [{ step: 'extension', type: 'faulty-01', outcome: 'failed', reason: 'secret reason' }])
  })

  const rubbish = [
    'nothing',
    'truthy',
    'one',
    'bare',
    'list',
    'silent',
    'internal',
    'forever',
    'uncloneable',
    'circular',
    'verbose',
    'fickle',
  ]
  for (const behaviour of rubbish)
    test(`an answer that is no verdict has decided nothing: ${behaviour}`, async () => {
      if (behaviour === 'uncloneable') {
        const verdict = await pools.validate(job(behaviour))
        assert.deepEqual(verdict, { ok: true, evidence: [{ step: 'x' }] }, 'as it goes through JSON')
      } else if (behaviour === 'fickle') assert.equal((await pools.validate(job(behaviour))).ok, false)
      else await assertNoVerdict(behaviour, /gave an answer that cannot be used$/)
    })

  test('a validator that takes too long has decided nothing, and its signal is aborted', async () => {
    await assertNoVerdict('hangs', /gave no answer within 0\.2 seconds$/, { timeoutMs: 200 })
    await assertNoVerdict('obeys', /gave no answer within 0\.2 seconds$/, { timeoutMs: 200 })
  })

  test('a module that is gone since the start has decided nothing', () =>
    assertNoVerdict('any', /^the validator of absent-01 failed$/, { type: 'absent-01' }))

  for (const behaviour of ['exits', 'stray', 'grows'])
    test(`a module that ends its thread has decided nothing, and the next one is asked: ${behaviour}`, async () => {
      await assertNoVerdict(behaviour, /^the validator of faulty-01 broke off$/, { timeoutMs: 120_000 })
      assert.equal((await pools.validate(job('good'))).ok, true)
    })

  test('a module that never gives its thread back has decided nothing, and the next one is asked', async () => {
    await assertNoVerdict('spins', /^the validator of faulty-01 broke off$/, { timeoutMs: 100 })
    assert.equal((await pools.validate(job('good'))).ok, true)
    assert.ok(errors.some(({ message }) => /^validator modules: a validation thread is stuck/.test(message)))
  })

  test('a type without a module here fails for good: its authorization is older than the configuration', async () => {
    const verdict = await pools.validate(job('good', { type: 'former-01' }))
    assert.deepEqual([verdict.ok, !verdict.ok && verdict.retryable], [false, false])
  })
})

describe('the example of docs/validators.md', () => {
  const folder = temporaryFolder()
  const file = path.join(folder, 'inventory.json')
  const { accountUrl } = job('a').challenge
  const example = {
    ...aModule(path.join(ROOT, 'docs/examples/inventory-validator.js'), 'Inventory'),
    type: 'inventory-01',
  }

  test('refuses settings that name no inventory', async () => {
    await assert.rejects(probeValidators({ modules: [example], settings: {} }, 60_000), /settings\.file must name/)
  })

  test('gives a name to the accounts that the file lists, as it is now', async (t) => {
    writeFileSync(file, JSON.stringify({ 'a.example': [accountUrl], '*.b.example': [accountUrl] }))
    const extensions = { modules: [example], settings: { 'inventory-01': { file } } }
    assert.deepEqual(await probeValidators(extensions, 60_000), [{ type: 'inventory-01', wildcard: true, ip: false }])
    const sizes = { threads: 1, concurrentTasksPerThread: 10, maxQueue: 10 }
    const pools = createValidationPools({ enabled: [], extensions }, false, sizes, (error) => assert.fail(error))
    t.after(() => pools.close(0))
    const ask = (name: string, over = {}) => pools.validate(job(name, { type: 'inventory-01', ...over }))
    assert.deepEqual(await ask('a'), { ok: true, evidence: [{ step: 'inventory', name: 'a.example', accounts: 1 }] })
    assert.equal((await ask('b')).ok, false)
    assert.equal((await ask('b', { wildcard: true })).ok, true)
    assert.equal((await ask('a', { accountUrl: `${accountUrl}2` })).ok, false)
    writeFileSync(file, '{}')
    assert.equal((await ask('a')).ok, false)
  })
})
