/**
 * Faults of the issuance pipeline (ARCHITECTURE.md, life of an issuance): each external write fails once without having
 * been done and once after it was done, on a real database. Afterwards: what the order is, what recovery makes of it, and
 * that a certificate is recorded once and never delivered unrecorded.
 */

import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CaBackend, CaError } from '../../src/ca/backend.ts'
import type { Order } from '../../src/domain/records.ts'
import { KEY_COMPROMISE } from '../../src/domain/revocation.ts'
import type { KnownAccount } from '../../src/services/account-cache.ts'
import { createAccountRules } from '../../src/services/account-rules.ts'
import { Finalization, type FinalizationOptions, type FinalizeRequest } from '../../src/services/finalization.ts'
import { Issuance, type IssuanceOptions, type OrderFacts } from '../../src/services/issuance.ts'
import { type RecoveryOptions, type RecoveryOutcome, recoverIssuances } from '../../src/services/recovery.ts'
import { randomSerialNumbers } from '../../src/services/serial-number.ts'
import { accountRulesPolicy } from '../../src/settings/account-settings.ts'
import { issuancePolicy } from '../../src/settings/issuance-settings.ts'
import { CommandDropped } from '../../src/shared/lib/batcher.ts'
import { parseSpki } from '../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { parseAccountKey } from '../../src/shared/protocol/jwk.ts'
import { createAllowlistStore, createCsrProfileStore } from '../../src/store/account-rules-store.ts'
import type { Requester } from '../../src/store/account-store.ts'
import type { Lapse } from '../../src/store/issuance-store.ts'
import { caIssuerOf, makeAuthority, signedBy } from '../signer/authority.ts'
import { aCaBackend } from '../support/cas/ca-backend.ts'
import { plainCsr } from '../support/csr.ts'
import { each } from '../support/each.ts'
import { gate } from '../support/gate.ts'
import { publicJwk } from '../support/jwk.ts'
import { until } from '../support/until.ts'
import { aConfig } from '../unit/config/support.ts'
import { P256_KEY } from '../unit/shared/pki/support.ts'
import { aName, anAccount, aReadyOrder, expire, useStores } from './support.ts'

const INSTANCE = 4711
const authority = makeAuthority()
const config = aConfig()

const ISSUER = caIssuerOf(authority)

type Write = (...words: never[]) => Promise<unknown>

/** `before`: the write is not done. `after`: it is done, and only the answer is lost. */
type Fault = 'before' | 'after'

/** Fails the first call of `write` and passes on the others. */
function failingOnce<W extends Write>(write: W, fault: Fault, error: Error): W {
  let failed = false
  return (async (...words: never[]) => {
    if (failed) return write(...words)
    failed = true
    if (fault === 'after') await write(...words)
    throw error
  }) as unknown as W
}

const LOST = Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' })

describe('issuance under faults', () => {
  const store = useStores()
  let csr: Buffer
  let names: string[]
  let spkiSha256: Buffer
  let known: KnownAccount
  let requester: Requester
  let signed: Buffer[]
  let alarms: string[]
  /** What interruptions and alarms name. */
  let told: OrderFacts[]
  let signingErrors: CaError[]
  let announced: string[]
  /** Ready for `csr`. */
  let order: Order

  beforeEach(async () => {
    await store.sql('DELETE FROM issuance_intents')
    const jwk = publicJwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey)
    const key = parseAccountKey(jwk as Record<string, string>, {
      minRsaBits: 2048,
      maxRsaBits: 4096,
      curves: ['P-256'],
    })
    const made = await anAccount(store, { jwk: key.jwk, thumbprint: key.thumbprint })
    requester = made.requester
    known = { account: made.account, key, requester, provenFrom: undefined }
    names = [aName(), aName()]
    ;({ csr, spkiSha256 } = aCsr(names))
    signed = []
    alarms = []
    told = []
    signingErrors = []
    announced = []
    order = await ready()
  })

  /** With a key of its own. */
  function aCsr(dnsNames: string[]): { csr: Buffer; spkiSha256: Buffer } {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const spki = publicKey.export({ type: 'spki', format: 'der' })
    const csr = plainCsr({ spki, privateKey, signatureAlgorithm: 'SHA256withECDSA' }, dnsNames)
    return { csr, spkiSha256: createHash('sha256').update(spki).digest() }
  }

  async function signTbs(_issuer: string, tbs: Buffer): Promise<Buffer> {
    const der = signedBy(authority, tbs)
    signed.push(der)
    return der
  }

  /** A CA that signs, or does what the test says instead. */
  const aCa = (signCertificate: Sign = signTbs) => aCaBackend({ issuers: () => [ISSUER], signCertificate })

  type Sign = CaBackend['signCertificate']
  type Subject = Pick<Issuance, 'recover' | 'issueToSelf' | 'inFlight'> & Pick<Finalization, 'finalize'>

  function anIssuance(
    { limits, orders, ...over }: Partial<IssuanceOptions & Pick<FinalizationOptions, 'limits' | 'orders'>> = {},
    finalizeWaitMs = 60_000,
  ): Subject {
    const options: IssuanceOptions = {
      ca: aCa(),
      store: store.issuance,
      certificates: store.certificates,
      policy: issuancePolicy(config, ['http-01']),
      serialNumber: randomSerialNumbers(),
      instanceId: INSTANCE,
      events: {
        issued: ({ id }) => announced.push(id),
        signingFailed: (error) => signingErrors.push(error),
        interrupted: (_error, facts) => told.push(facts),
        alarm(message, _cause, facts) {
          alarms.push(message)
          told.push(facts)
        },
      },
      ...over,
    }
    const issuance = new Issuance(options)
    const finalization = new Finalization({
      issuance,
      orders: orders ?? { findOrder: (_requester, id) => fresh({ id }) },
      store: options.store,
      certificates: options.certificates,
      rules: createAccountRules(
        createAllowlistStore(store.db),
        createCsrProfileStore(store.db),
        accountRulesPolicy(config),
      ),
      quotas: { charged: (_kind, _accountId, work) => work() },
      limits: limits ?? { charge: () => undefined, giveBack: async () => undefined },
      policy: { ...issuancePolicy(config, ['http-01']), finalizeWaitMs },
    })
    return {
      finalize: (account, request) => finalization.finalize(account, request),
      recover: (issuing, isUnsigned) => issuance.recover(issuing, isUnsigned),
      issueToSelf: (identifiers, spki, now) => issuance.issueToSelf(identifiers, spki, now),
      inFlight: () => issuance.inFlight(),
    }
  }

  const signing = (signCertificate: Sign) => anIssuance({ ca: aCa(signCertificate) })
  /** By a CA that answers with these errors one after the other, and with the last one from then on. */
  const failing = (...errors: readonly Error[]) => {
    const left = [...errors]
    return signing(() => Promise.reject(left.length > 1 ? left.shift() : left[0]))
  }
  /** One write fails once. */
  const losing = (write: 'begin' | 'complete' | 'fail', fault: Fault, over: Partial<IssuanceOptions> = {}) =>
    anIssuance({
      ...over,
      store: { ...store.issuance, [write]: failingOnce(store.issuance[write] as Write, fault, LOST) },
    })
  const expired = () => expire(store, 'orders', order.id)

  const ready = () => aReadyOrder(store, requester, {}, names)
  const fresh = async (order: Pick<Order, 'id'>) => {
    const found = await store.orders.find({ requester, orderId: order.id })
    assert.ok(found && typeof found !== 'symbol')
    return found
  }
  const STAYS = () => false
  const requestFor = (order: Order, over: Partial<FinalizeRequest> = {}): FinalizeRequest => ({
    orderId: order.id,
    csr,
    now: new Date(),
    isGone: STAYS,
    ...over,
  })
  const finalize = async (issuance: Subject, order: Order, over: Partial<FinalizeRequest> = {}) =>
    issuance.finalize(known, requestFor(order, over))
  /** The first look-up finds the order as it was read before. */
  function staleOnce(read: Order): FinalizationOptions['orders'] {
    let first: Order | undefined = read
    return {
      async findOrder() {
        const found = first ?? (await fresh(read))
        first = undefined
        return found
      },
    }
  }

  /** Everything left behind is old enough at once. */
  async function recover(
    issuance: Subject,
    abandon = store.issuance.abandon,
    more: Partial<Pick<RecoveryOptions, 'canSign' | 'timeoutSeconds'>> = {},
  ) {
    const outcomes: RecoveryOutcome[] = []
    await recoverIssuances({
      store: { ...store.issuance, abandon },
      canSign: true,
      timeoutSeconds: 600,
      ...more,
      complete: (issuing, isUnsigned) => issuance.recover(issuing, isUnsigned),
      instanceId: INSTANCE,
      ownAfterSeconds: 0,
      onRecovered: (_intent, outcome) => outcomes.push(outcome),
    })
    return outcomes
  }
  const OVER = { timeoutSeconds: 0 }

  const recorded = (order: Order) =>
    store.sql<{ id: string; der: Buffer; names: string[] }>(
      'SELECT id, der, names FROM certificates WHERE order_id = $1',
      [order.id],
    )
  const intents = async (order: Order) =>
    (await store.sql('SELECT FROM issuance_intents WHERE order_id = $1', [order.id])).length

  /** The order is valid, its one certificate is recorded and was signed by the CA, and nothing is left to do. */
  async function requireIssuedOnce(order: Order): Promise<void> {
    const now = await fresh(order)
    assert.equal(now.status, 'valid')
    const certificates = await recorded(order)
    assert.deepEqual(each(certificates, 'id'), [now.certificateId])
    const [{ der, names: recordedNames }] = certificates as [(typeof certificates)[0]]
    assert.ok(signed.some((one) => one.equals(der)))
    assert.deepEqual(recordedNames.toSorted(), names.toSorted())
    assert.equal(await intents(order), 0)
    const serials = new Set(signed.map((one) => parseCertificate(one).tbs.serialNumber.toString('hex')))
    assert.equal(serials.size, 1, 'every signature is over the same serial number')
    const tbs = new Set(signed.map((one) => parseCertificate(one).tbs.spki.der.toString('hex')))
    assert.equal(tbs.size, 1)
  }

  const serialsOf = async (order: Order) =>
    (
      await store.sql<{ serial: string }>(
        "SELECT encode(serial_number, 'hex') AS serial FROM issuance_intents WHERE order_id = $1",
        [order.id],
      )
    ).map(({ serial }) => serial)

  /** What may have been signed is on the next CRL, without being a certificate of anybody. */
  async function requireRevokedUnseen(serials: readonly string[], reason = 5): Promise<void> {
    assert.equal(serials.length, 1)
    const rows = await store.sql(
      `SELECT account_id, order_id, length(der) AS length, revocation_reason AS reason, revoked_at IS NOT NULL AS revoked
         FROM certificates WHERE encode(serial_number, 'hex') = $1`,
      [serials[0]],
    )
    assert.deepEqual(rows, [{ account_id: null, order_id: null, length: 0, reason, revoked: true }])
  }
  const stored = async ({ id }: Order) =>
    (
      await store.sql<{ status: string; error: { type: string } | null }>(
        'SELECT status, error FROM orders WHERE id = $1',
        [id],
      )
    )[0]!
  const changesOfCrl = async () =>
    (await store.sql<{ sum: string }>('SELECT coalesce(sum(changes), 0) AS sum FROM crl_changes'))[0]?.sum

  async function requireInvalid(order: Order, type = 'serverInternal'): Promise<void> {
    const now = await fresh(order)
    assert.equal(now.status, 'invalid')
    assert.equal(now.error?.type, `urn:ietf:params:acme:error:${type}`)
    assert.deepEqual(await recorded(order), [])
    assert.equal(await intents(order), 0)
  }

  test('a certificate that fails its lint is an alarm and ends its order, and is never signed', async () => {
    const ca = { ...aCa(), issuers: () => [{ ...ISSUER, keyIdentifier: Buffer.alloc(0) }] }
    assert.equal((await finalize(anIssuance({ ca }), order)).status, 'invalid')
    await requireInvalid(order)
    assert.deepEqual(alarms, ['a TBSCertificate failed its lint and was not signed'])
    assert.deepEqual([signed, signingErrors], [[], []])
  })

  test('neither is it signed by the recovery of a service that died before it ended the order', async () => {
    const ca = { ...aCa(), issuers: () => [{ ...ISSUER, keyIdentifier: Buffer.alloc(0) }] }
    const issuance = losing('fail', 'before', { ca })
    assert.equal((await finalize(issuance, order)).status, 'processing')
    assert.deepEqual(await recover(issuance), ['failed'])
    await requireInvalid(order)
    assert.deepEqual(signed, [])
  })

  test('without a fault the order is valid, and recovery finds nothing', async () => {
    const issuance = anIssuance()
    assert.equal((await finalize(issuance, order)).status, 'valid')
    assert.deepEqual(await recover(issuance), [])
    await requireIssuedOnce(order)
    assert.equal(announced.length, 1)
    assert.equal(issuance.inFlight(), 0)
  })

  test('finalizes of one order by two threads issue once, and both get the order', async () => {
    const current = await fresh(order)
    const attempts = [
      anIssuance({ orders: staleOnce(current) }),
      anIssuance({ orders: staleOnce(current), store: store.other.issuance }),
    ].map((issuance) => issuance.finalize(known, requestFor(order)))
    const results = await Promise.all(attempts)
    assert.ok(results.every(({ status }) => status === 'valid' || status === 'processing'))
    await sleep(50)
    await requireIssuedOnce(order)
    assert.equal(signed.length, 1)
  })

  test('of finalizes with several keys at once, those with another key than the certificate has are not ready (§7.4)', async () => {
    const issuances = [anIssuance(), anIssuance({ store: store.other.issuance })]
    const csrs = Array.from({ length: 6 }, () => aCsr(names))
    const results = await Promise.allSettled(
      csrs.map((one, i) => (issuances[i % 2] as Subject).finalize(known, requestFor(order, { csr: one.csr }))),
    )
    const [{ der } = { der: Buffer.alloc(0) }] = await recorded(order)
    const certified = createHash('sha256').update(parseCertificate(der).tbs.spki.der).digest()
    for (const [i, result] of results.entries()) {
      if (csrs[i]?.spkiSha256.equals(certified)) assert.equal(result.status, 'fulfilled')
      else assert.equal(result.status === 'rejected' && result.reason.type, 'orderNotReady')
    }
  })

  test('equal finalizes that are under way at the same time are one run, counted once', async () => {
    await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256])
    let begun = 0
    let counted = 0
    const issuance = anIssuance({
      store: {
        ...store.issuance,
        begin(intent) {
          begun++
          return store.issuance.begin(intent)
        },
      },
      limits: { charge: async () => void counted++, giveBack: async () => undefined },
    })
    const results = await Promise.allSettled(
      Array.from({ length: 3000 }, () => issuance.finalize(known, requestFor(order))),
    )
    assert.ok(results.every((result) => result.status === 'rejected' && result.reason.type === 'badCSR'))
    assert.deepEqual([begun, counted], [1, 1])
    await assert.rejects(finalize(issuance, order), { type: 'badCSR' })
    assert.equal(begun, 2, 'what comes later is looked at anew')
  })

  test('a finalize that nobody waits for any more is not begun; one that somebody else waits for is', async () => {
    const left = await ready()
    const shared = await ready()
    const gone = { isGone: () => true }
    const issuance = anIssuance()
    await assert.rejects(finalize(issuance, left, gone), CommandDropped)
    assert.equal((await fresh(left)).status, 'ready')
    const both = [gone, {}].map((over) => issuance.finalize(known, requestFor(shared, over)))
    for (const { status } of await Promise.all(both)) assert.equal(status, 'valid')
  })

  test('what a finalize charged for its identifiers is given back unless it has begun', async () => {
    let taken: string[] = []
    const limits: FinalizationOptions['limits'] = {
      charge: async (counted) => {
        taken.push(...counted.map(({ subject }) => subject))
      },
      giveBack: async (counted) => {
        taken = taken.filter((one) => !counted.some(({ subject }) => subject === one))
      },
    }
    const begin = failingOnce(store.issuance.begin, 'before', LOST)
    const issuance = anIssuance({ limits, store: { ...store.issuance, begin } })
    await assert.rejects(finalize(issuance, order), /Connection terminated/)
    assert.deepEqual(taken, [], 'begin failed')
    await assert.rejects(finalize(issuance, order, { isGone: () => true }), CommandDropped)
    assert.deepEqual(taken, [], 'begin was dropped')
    await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256])
    await assert.rejects(finalize(issuance, order), { type: 'badCSR' })
    assert.deepEqual(taken, [], 'begin lost')
    await store.sql('DELETE FROM blocked_keys WHERE spki_sha256 = $1', [spkiSha256])
    assert.equal((await finalize(issuance, order)).status, 'valid')
    assert.deepEqual(taken.toSorted(), names.map((name) => `dns ${name}`).toSorted())
  })

  describe('begin', () => {
    test('a begin that is not done leaves the order ready, and the next finalize issues', async () => {
      const issuance = losing('begin', 'before')
      await assert.rejects(finalize(issuance, order), /Connection terminated/)
      assert.equal((await fresh(order)).status, 'ready')
      assert.deepEqual(await recover(issuance), [])
      assert.equal((await finalize(issuance, order)).status, 'valid')
      await requireIssuedOnce(order)
    })

    test('done and reported as failed: the order is processing, and recovery issues', async () => {
      const issuance = losing('begin', 'after')
      await assert.rejects(finalize(issuance, order), /Connection terminated/)
      assert.equal((await fresh(order)).status, 'processing')
      assert.deepEqual(signed, [])
      assert.deepEqual(await recover(issuance), ['recorded'])
      await requireIssuedOnce(order)
    })
  })

  test('the issuer that cannot be remembered leaves the order ready', async () => {
    const saveIssuer = failingOnce(store.certificates.saveIssuer, 'before', LOST)
    const issuance = anIssuance({ certificates: { ...store.certificates, saveIssuer } })
    await assert.rejects(finalize(issuance, order), /Connection terminated/)
    assert.equal((await fresh(order)).status, 'ready')
    assert.equal((await finalize(issuance, order)).status, 'valid')
    await requireIssuedOnce(order)
  })

  describe('sign', () => {
    /** Nothing was sent to the signer. */
    const AWAY = new CaError('the signer is away', { retryable: true })
    const SILENT = new CaError('the signer did not answer', { retryable: true, mayHaveIssued: true })
    for (const [what, fault, error] of [
      ['not done', 'before', AWAY],
      ['done and reported as failed', 'after', SILENT],
      ['not done, with an error that is none of the backend', 'before', new TypeError('oops')],
    ] as const) {
      test(`${what}: the order is processing, and recovery issues over the same TBSCertificate`, async () => {
        const issuance = signing(failingOnce(signTbs, fault, error))
        assert.equal((await finalize(issuance, order)).status, 'processing')
        assert.deepEqual(await recorded(order), [])
        assert.equal(signingErrors.length, 1)
        assert.deepEqual(await recover(issuance), ['recorded'])
        await requireIssuedOnce(order)
        assert.equal(signed.length, fault === 'after' ? 2 : 1)
      })
    }

    test('refused for a name that only the signer excludes: the order is invalid with rejectedIdentifier, and no alarm', async () => {
      const nameRefusal = `${names[0]} reaches into an excluded subtree`
      const refusal = new CaError(`name not allowed: ${nameRefusal}`, { retryable: false, nameRefusal })
      const issuance = failing(refusal)
      assert.equal((await finalize(issuance, order)).status, 'invalid')
      await requireInvalid(order, 'rejectedIdentifier')
      assert.match((await fresh(order)).error?.detail ?? '', new RegExp(`${names[0]} reaches into an excluded subtree`))
      assert.deepEqual(alarms, [])
    })

    test('refused for good: the order is invalid with an error, and recovery finds nothing', async () => {
      const issuance = failing(new CaError('validity too long', { retryable: false }))
      assert.equal((await finalize(issuance, order)).status, 'invalid')
      await requireInvalid(order)
      assert.deepEqual(await recover(issuance), [])
      assert.doesNotMatch(JSON.stringify((await fresh(order)).error), /validity too long/, 'the cause is for the log')
    })

    test('still away when recovery tries: the order stays processing until it is back', async () => {
      let away = true
      const issuance = signing(async (issuer, tbs) => (away ? Promise.reject(AWAY) : signTbs(issuer, tbs)))
      assert.equal((await finalize(issuance, order)).status, 'processing')
      assert.deepEqual(await recover(issuance), ['left to recovery'])
      assert.equal((await fresh(order)).status, 'processing')
      away = false
      assert.deepEqual(await recover(issuance), ['recorded'])
      await requireIssuedOnce(order)
    })

    const REFUSAL = new CaError('refused', { retryable: false })
    const adopt = () => store.issuance.adopt(INSTANCE, { ownOlderThanSeconds: 0 }, 64)
    const ALONE = { canSign: false }
    type Rounds = [more: Parameters<typeof recover>[2], outcomes: RecoveryOutcome[]][]
    const IN_VAIN: Rounds[0] = [{}, ['left to recovery']]
    /** What the signer answers, what happens then, what each round of recovery makes of it, and whether a CRL has it. */
    const ENDS: [
      what: string,
      errors: CaError[],
      then: (() => Promise<unknown>) | undefined,
      Rounds,
      isRevoked: boolean,
    ][] = [
      ['does not answer until the order has expired', [SILENT], () => expired(), [[{}, ['expired']]], true],
      ['does not answer until its time is over', [SILENT], undefined, [IN_VAIN, [OVER, ['overdue']]], true],
      [
        'is left alone',
        [SILENT],
        undefined,
        [
          [ALONE, []],
          [{ ...ALONE, ...OVER }, ['overdue']],
        ],
        true,
      ],
      ['cannot be asked', [AWAY], undefined, [IN_VAIN, [OVER, ['unsigned']]], false],
      ['cannot be asked and is left alone', [AWAY], undefined, [IN_VAIN, [{ ...ALONE, ...OVER }, ['unsigned']]], false],
      ['may have signed before it went away', [SILENT, AWAY], undefined, [IN_VAIN, [OVER, ['overdue']]], true],
      [
        'may have signed when it was asked again',
        [AWAY, SILENT, AWAY],
        undefined,
        [IN_VAIN, [OVER, ['overdue']]],
        true,
      ],
      ['was asked by a recovery that has died', [AWAY], adopt, [[{ ...ALONE, ...OVER }, ['overdue']]], true],
      [
        'was asked by a release that does not know of it',
        [AWAY],
        () => store.sql('UPDATE issuance_intents SET instance_id = $1', [INSTANCE + 1]),
        [[{ ...ALONE, ...OVER }, ['overdue']]],
        true,
      ],
      ['may have signed, and refuses for good when it is back', [SILENT, REFUSAL], undefined, [[{}, ['failed']]], true],
      ['was away, and refuses for good when it is back', [AWAY, REFUSAL], undefined, [[{}, ['failed']]], false],
    ]
    for (const [what, errors, then, rounds, isRevoked] of ENDS)
      test(`by a signer that ${what}: the order ends, and ${isRevoked ? 'what may have been signed' : 'nothing'} is revoked`, async () => {
        const issuance = failing(...errors)
        await finalize(issuance, order)
        const [serials, changes] = [await serialsOf(order), await changesOfCrl()]
        await then?.()
        for (const [more, outcomes] of rounds) {
          assert.equal((await stored(order)).status, 'processing')
          // Who leaves the signer alone may be another process.
          const by = more?.canSign === false ? anIssuance() : issuance
          assert.deepEqual(await recover(by, undefined, more), outcomes)
        }
        await requireInvalid(order)
        if (isRevoked) await requireRevokedUnseen(serials)
        else assert.equal(await intents(order), 0)
        assert.equal((await changesOfCrl()) === changes, !isRevoked, 'a CRL is due for what is revoked')
      })

    test('heard of late by a thread that recovery has overtaken: its word does not count', async () => {
      const overtaken = signing(async () => {
        const [adopted] = await adopt()
        assert.equal(adopted?.isUnsigned, false)
        throw AWAY
      })
      await finalize(overtaken, order)
      const serials = await serialsOf(order)
      assert.deepEqual(await recover(anIssuance(), undefined, { canSign: false, ...OVER }), ['overdue'])
      await requireRevokedUnseen(serials)
    })

    test('that is back after the time of the order, which nobody has ended: recovery issues', async () => {
      const issuance = signing(failingOnce(signTbs, 'before', AWAY))
      await finalize(issuance, order)
      assert.deepEqual(await recover(issuance, undefined, OVER), ['recorded'])
      await requireIssuedOnce(order)
    })

    test('whose certificate an operator has imported in the meantime: it stays valid', async () => {
      const issuance = failing(SILENT)
      await finalize(issuance, order)
      await store.sql(
        `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
         SELECT gen_random_uuid(), serial_number, issuer_fingerprint, '{}', now(), now(), 'imported' FROM issuance_intents WHERE order_id = $1`,
        [order.id],
      )
      assert.deepEqual(await recover(issuance, undefined, OVER), ['overdue'])
      assert.deepEqual(await store.sql("SELECT revoked_at FROM certificates WHERE der = 'imported'"), [
        { revoked_at: null },
      ])
    })

    /** What a client or an operator may do to an order while the signer is away. */
    const WITHDRAWN: Record<string, [withdraw: (order: Order) => Promise<unknown>, lapse: Lapse, problem: string]> = {
      'the account was deactivated': [() => store.accounts.deactivate(requester), 'account not valid', 'unauthorized'],
      'the account was revoked': [
        () => store.sql("UPDATE accounts SET status = 'revoked' WHERE id = $1", [requester.accountId]),
        'account not valid',
        'unauthorized',
      ],
      'the key was revoked as compromised': [
        () => store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256]),
        'key blocked',
        'badCSR',
      ],
      'an authorization was deactivated': [
        (order) => store.authorizations.deactivate(requester, order.authorizationIds[1] as string),
        'authorization withdrawn',
        'unauthorized',
      ],
      'an authorization was revoked': [
        (order) => store.sql("UPDATE authorizations SET status = 'revoked' WHERE id = $1", [order.authorizationIds[0]]),
        'authorization withdrawn',
        'unauthorized',
      ],
    }
    for (const [what, [withdraw, lapse, problem]] of Object.entries(WITHDRAWN)) {
      test(`away until ${what}: recovery has nothing signed and makes the order invalid`, async () => {
        let away = true
        const issuance = signing(async (issuer, tbs) => (away ? Promise.reject(AWAY) : signTbs(issuer, tbs)))
        await finalize(issuance, order)
        await withdraw(order)
        away = false
        assert.deepEqual(await recover(issuance), [lapse])
        const { status, error } = await stored(order)
        assert.deepEqual([status, error?.type], ['invalid', `urn:ietf:params:acme:error:${problem}`])
        assert.deepEqual([signed, await recorded(order), await intents(order)], [[], [], 0])
      })
    }

    test('away until an authorization has expired: the order was finalized in time, and recovery issues', async () => {
      const issuance = signing(failingOnce(signTbs, 'before', AWAY))
      await finalize(issuance, order)
      await store.sql(
        "UPDATE authorizations SET expires_at = now() - interval '1 second', status = 'expired' WHERE id = $1",
        [order.authorizationIds[0]],
      )
      assert.deepEqual(await recover(issuance), ['recorded'])
      await requireIssuedOnce(order)
    })

    test('signed, but the key was blocked before the answer came: the certificate is revoked for keyCompromise, unseen', async () => {
      const issuance = signing(failingOnce(signTbs, 'after', SILENT))
      await finalize(issuance, order)
      const serials = await serialsOf(order)
      await store.sql('INSERT INTO blocked_keys (spki_sha256) VALUES ($1)', [spkiSha256])
      assert.deepEqual(await recover(issuance), ['key blocked'])
      await requireInvalid(order, 'badCSR')
      await requireRevokedUnseen(serials, KEY_COMPROMISE)
      assert.deepEqual([signed.length, announced], [1, []])
    })

    test('made again by recovery while another instance fails the expired order: this recovery has recorded nothing', async () => {
      await finalize(failing(AWAY), order)
      const overtaken = signing(async (issuer, tbs) => {
        await expired()
        assert.deepEqual(await recover(anIssuance()), ['expired'])
        return signTbs(issuer, tbs)
      })
      assert.deepEqual(await recover(overtaken), ['ended elsewhere'])
      await requireInvalid(order)
      assert.deepEqual(announced, [])
    })

    test('slower than the reply waits: the order is processing, then valid by itself', async () => {
      const { opened: replied, open: goOn } = gate()
      const ca = aCa((issuer, tbs) => replied.then(() => signTbs(issuer, tbs)))
      const issuance = anIssuance({ ca }, 10)
      assert.equal((await finalize(issuance, order)).status, 'processing')
      assert.equal(issuance.inFlight(), 1)
      goOn()
      while (issuance.inFlight() > 0) await sleep(5)
      await requireIssuedOnce(order)
    })
  })

  describe('record', () => {
    test('a record that is not done delivers nothing, and recovery records the certificate', async () => {
      const issuance = losing('complete', 'before')
      const reply = await finalize(issuance, order)
      assert.deepEqual([reply.status, reply.certificateId], ['processing', undefined])
      assert.deepEqual(alarms, [])
      requireTold(order)
      assert.deepEqual(announced, [])
      assert.deepEqual(await recorded(order), [])
      assert.deepEqual(await recover(issuance), ['recorded'])
      await requireIssuedOnce(order)
      assert.equal(announced.length, 1)
    })

    test('a record that is not done is repeated with the signature at hand once the database is back', async () => {
      const issuance = losing('complete', 'before')
      assert.equal((await finalize(issuance, order)).status, 'processing')
      await until('its line in the log', () => announced.length > 0)
      await requireIssuedOnce(order)
      assert.equal(signed.length, 1)
      assert.deepEqual(await recover(issuance), [])
    })

    test('a record that is not done yields to the signature that another instance has recorded meanwhile', async () => {
      let isAsked = false
      const findBySerial: typeof store.certificates.findBySerial = async (...asked) => {
        isAsked = true
        return store.certificates.findBySerial(...asked)
      }
      const complete = failingOnce(store.issuance.complete, 'before', LOST)
      const certificates = { ...store.certificates, findBySerial }
      await finalize(anIssuance({ certificates, store: { ...store.issuance, complete } }), order)
      assert.deepEqual(await recover(anIssuance()), ['recorded'])
      await until('a question for the record', () => isAsked)
      await sleep(50)
      assert.equal(announced.length, 1)
    })

    test('refused by a database that answers: recovery raises an alarm that names order, account and serial number', async () => {
      const refusal = new Error('permission denied for table certificates')
      const issuance = anIssuance({ store: { ...store.issuance, complete: () => Promise.reject(refusal) } })
      assert.equal((await finalize(issuance, order)).status, 'processing')
      assert.deepEqual(alarms, [])
      assert.deepEqual(await recover(issuance), ['left to recovery'])
      assert.deepEqual(alarms, ['an interrupted issuance cannot be finished'])
      requireTold(order)
      assert.deepEqual(await recover(anIssuance()), ['recorded'])
    })

    function requireTold(order: Order): void {
      const serialNumber = parseCertificate(signed[0] as Buffer).tbs.serialNumber.toString('hex')
      assert.ok(told.length > 0)
      for (const { certificateId, ...facts } of told) {
        assert.match(certificateId, /^[0-9a-f-]{36}$/)
        assert.deepEqual(facts, { accountId: order.accountId, orderId: order.id, serialNumber })
      }
    }

    test('done and reported as failed: the order is valid already, and recovery finds nothing', async () => {
      const issuance = losing('complete', 'after')
      assert.equal((await finalize(issuance, order)).status, 'processing')
      assert.deepEqual(await recover(issuance), [])
      await requireIssuedOnce(order)
      await until('its line in the log', () => announced.length > 0)
      assert.deepEqual(announced, [(await fresh(order)).certificateId])
    })

    test('while recovery records its own signature: the reply names the certificate that is recorded', async () => {
      const issuance = signing(async (issuer, tbs) => {
        const der = await signTbs(issuer, tbs)
        if (signed.length === 1) assert.deepEqual(await recover(issuance), ['recorded'])
        return der
      })
      const reply = await finalize(issuance, order)
      assert.equal(reply.status, 'valid')
      assert.equal(signed.length, 2)
      await requireIssuedOnce(order)
      assert.equal(reply.certificateId, (await recorded(order))[0]?.id)
      assert.equal(announced.length, 1)
    })

    test('after recovery has failed the expired order: the reply is the invalid order, and nothing is recorded', async () => {
      const issuance = signing(async (issuer, tbs) => {
        await expired()
        assert.deepEqual(await recover(issuance), ['expired'])
        return signTbs(issuer, tbs)
      })
      const reply = await finalize(issuance, order)
      assert.deepEqual([reply.status, reply.certificateId], ['invalid', undefined])
      await requireInvalid(order)
      assert.deepEqual(announced, [])
    })
  })

  describe('fail', () => {
    const refusing = () => aCa(() => Promise.reject(new CaError('refused', { retryable: false })))

    for (const [what, fault, left, outcomes] of [
      ['is not done leaves the order processing, and recovery fails it', 'before', 1, ['failed']],
      ['is done and reported as failed: the order is invalid already, and recovery finds nothing', 'after', 0, []],
    ] as const)
      test(`a fail that ${what}`, async () => {
        const issuance = losing('fail', fault, { ca: refusing() })
        assert.equal((await finalize(issuance, order)).status, 'processing')
        assert.equal(await intents(order), left)
        assert.deepEqual(await recover(issuance), outcomes)
        await requireInvalid(order)
      })

    test('of one order by recovery does not keep the others from theirs', async () => {
      const away = anIssuance({
        ca: aCa(() => Promise.reject(new CaError('silent', { retryable: true, mayHaveIssued: true }))),
      })
      const late = await ready()
      await finalize(away, late)
      // Not the same order again: that one is open no more.
      const good = await aReadyOrder(store, requester, {}, names)
      await finalize(away, good)
      await expire(store, 'orders', late.id)
      const issuance = signing(async (issuer, tbs) => {
        await sleep(40)
        return signTbs(issuer, tbs)
      })
      await assert.rejects(recover(issuance, failingOnce(store.issuance.abandon, 'before', LOST)))
      assert.equal((await fresh(good)).status, 'valid', 'the round ends when all of it has ended')
      assert.deepEqual(await recover(issuance), ['expired'])
      await requireInvalid(late)
    })
  })

  test('a crash after begin: another instance issues what it finds', async () => {
    const crashed = anIssuance({ instanceId: 9001, ca: aCa(() => new Promise(() => undefined)) }, 10)
    assert.equal((await finalize(crashed, order)).status, 'processing')
    assert.deepEqual(await recover(anIssuance()), ['recorded'])
    await requireIssuedOnce(order)
  })

  test('an order whose authorization was deactivated since it was read is not issued', async () => {
    const read = await fresh(order)
    await store.authorizations.deactivate(requester, order.authorizationIds[0] as string)
    await assert.rejects(anIssuance({ orders: staleOnce(read) }).finalize(known, requestFor(order)), {
      type: 'orderNotReady',
    })
    assert.equal(signed.length, 0)
  })

  const spki = parseSpki(P256_KEY.spki)

  test('a certificate of the service itself is recorded before it is given out', async () => {
    const identifiers = [{ type: 'dns' as const, value: 'localhost' }]
    const { der } = await anIssuance().issueToSelf(identifiers, spki, new Date())
    const serial = parseCertificate(der).tbs.serialNumber
    assert.ok((await store.certificates.findBySerial(serial))?.der.equals(der))
    await assert.rejects(losing('complete', 'before').issueToSelf(identifiers, spki, new Date()), { name: 'CaError' })
    assert.deepEqual(await recover(anIssuance()), ['recorded'])
  })

  test('a name of the service itself that the signer’s policy refuses is an error with its reason, and no alarm', async () => {
    const refusal = new CaError('acme.other.example is outside the permitted names', { retryable: false })
    const issuance = failing(refusal)
    await assert.rejects(
      issuance.issueToSelf([{ type: 'dns', value: 'acme.other.example' }], spki, new Date()),
      /the certificate of the service itself: acme\.other\.example is outside the permitted names/,
    )
    assert.deepEqual(alarms, [])
    assert.deepEqual(await recover(anIssuance()), [], 'nothing is left to do')
  })
})
