/**
 * Building CRLs on a real database (RFC 5280 §5): what is in a list and when it leaves, two builders at once, what is
 * revoked meanwhile, and what a crash leaves.
 */

import assert from 'node:assert/strict'
import { createPublicKey, randomBytes, sign, verify } from 'node:crypto'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CaBackend } from '../../src/ca/backend.ts'
import { issuerKeyOf, shardOf } from '../../src/domain/crl-scope.ts'
import { MalformedCrl } from '../../src/services/crl/crl-build.ts'
import { CrlBuilder, type CrlBuilt, type CrlPolicy } from '../../src/services/crl/crl-builder.ts'
import { createCrlCache } from '../../src/services/crl/crl-cache.ts'
import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import { fingerprintSha256, parseCertificate } from '../../src/shared/pki/certificate.ts'
import { readSingle } from '../../src/shared/pki/der.ts'
import { createCertificateStore } from '../../src/store/certificate-store.ts'
import { createCrlStore } from '../../src/store/crl-store.ts'
import encodeEntries from '../../workers/crl.ts'
import { caIssuerOf, makeAuthority } from '../signer/authority.ts'
import { aCaBackend } from '../support/ca-backend.ts'
import { type ReadCrl, readCrl } from '../support/crl.ts'
import { each } from '../support/each.ts'
import { jumped, useStores } from './support.ts'

const HOUR_MS = 3_600_000
const authority = makeAuthority('P-256')
const issuer = caIssuerOf(authority)
const issuerKey = issuerKeyOf(issuer.nameDer, issuer.keyIdentifier)
const fingerprint = fingerprintSha256(authority.certificate)
const COMPLETE = { issuerKey, shards: 1, shard: 0 }

const POLICY: CrlPolicy = {
  intervalMs: HOUR_MS,
  lifetimeMs: 24 * HOUR_MS,
  hash: undefined,
  shards: 1,
  complete: true,
  maxValidityDays: 400,
  urlOf: (issuerId, shards, shard) => `http://crl.test/${issuerId}/${shards}-${shard}`,
  signTimeoutMs: 10_000,
}

type SignCrl = CaBackend['signCrl']

const signWithAuthority: SignCrl = async (_issuer, { signatureAlgorithm, pieces, length }) => {
  const tbs: Buffer[] = []
  for await (const piece of pieces) tbs.push(piece)
  const whole = Buffer.concat(tbs)
  assert.equal(whole.length, length)
  return sign(SIGNATURE_ALGORITHMS[signatureAlgorithm].hash, whole, authority.privateKey)
}

describe('building CRLs', () => {
  const store = useStores()
  beforeEach(() =>
    store.sql(
      'TRUNCATE certificates, crls, crl_pieces, crl_changes, crl_numbers, crl_shardings, server_settings, slow_clock',
    ),
  )

  const HASHES: readonly (readonly [CrlPolicy['hash'], SignatureAlgorithm])[] = [
    [undefined, 'SHA384withECDSA'],
    ['sha256', 'SHA384withECDSA'],
    ['sha512', 'SHA512withECDSA'],
  ]
  for (const [hash, expected] of HASHES)
    test(`of an issuer with SHA-384, and ${hash ?? 'no hash'} configured, are signed with ${expected}`, async () => {
      const seen: SignatureAlgorithm[] = []
      const signCrl: SignCrl = (id, tbs, options) => {
        seen.push(tbs.signatureAlgorithm)
        return signWithAuthority(id, tbs, options)
      }
      await anInstance({ policy: { hash }, signCrl, issuerAlgorithm: 'SHA384withECDSA' }).round()
      assert.deepEqual(seen, [expected])
    })

  interface Instance {
    round(): Promise<number>
    leftBefore(): Promise<Date | undefined>
    built: CrlBuilt[]
    failures: unknown[]
    duplicates: number[]
  }
  const running: { stop(): void }[] = []
  afterEach(() => {
    for (const { stop } of running.splice(0)) stop()
  })

  function anInstance(
    options: {
      policy?: Partial<CrlPolicy>
      signCrl?: SignCrl
      encode?: typeof encodePage
      requireCompared?: () => Promise<void>
      newestSigned?: () => bigint
      scheduledAt?: Date
      issuerAlgorithm?: SignatureAlgorithm
    } = {},
  ): Instance {
    const instance: Omit<Instance, 'round' | 'leftBefore'> = { built: [], failures: [], duplicates: [] }
    let stopping = false
    running.push({
      stop: () => {
        stopping = true
      },
    })
    const ca = aCaBackend({
      issuers: () => [{ ...issuer, signatureAlgorithm: options.issuerAlgorithm ?? issuer.signatureAlgorithm }],
      signCrl: options.signCrl ?? signWithAuthority,
    })
    const builder = new CrlBuilder(
      {
        store: createCrlStore(store.db),
        certificates: createCertificateStore(store.db),
        ca,
        encode: options.encode ?? encodePage,
        requireCompared: options.requireCompared ?? (async () => {}),
        newestSigned: () => options.newestSigned?.(),
        scheduledAt: () => options.scheduledAt,
        isStopping: () => stopping,
        events: {
          built: (crl) => instance.built.push(crl),
          failed: (_, error) => instance.failures.push(error),
          duplicates: (_, count) => instance.duplicates.push(count),
        },
      },
      { ...POLICY, ...options.policy },
    )
    return { ...instance, round: () => builder.round(), leftBefore: () => builder.leftBefore() }
  }

  async function encodePage(job: Parameters<typeof encodeEntries>[0]): Promise<Buffer> {
    return Buffer.from(encodeEntries(job))
  }

  /** Certificates that are valid for a day, or have expired. @returns serial numbers */
  async function certificates(count: number, over: { notAfter?: string } = {}): Promise<string[]> {
    const rows = await store.sql<{ serial: string }>(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT gen_random_uuid(), decode('41' || replace(gen_random_uuid()::text, '-', ''), 'hex'), decode($1, 'hex'), '{}',
              now() - interval '90 days', now() + $3::interval, '\\x00'
         FROM generate_series(1, $2) RETURNING encode(serial_number, 'hex') AS serial`,
      [fingerprint, count, over.notAfter ?? '1 day'],
    )
    return rows.map(({ serial }) => serial)
  }

  const revoke = (serials: readonly string[], at = 'now()', reason: number | null = 1) =>
    store.sql(
      `UPDATE certificates SET revoked_at = date_trunc('second', ${at}), revocation_reason = $2
        WHERE encode(serial_number, 'hex') = ANY ($1)`,
      [serials, reason],
    )

  const inBulk = (numbers: readonly string[]) =>
    store.db.transaction(async (tx) => {
      await tx.query({ name: 'bulk', text: "SELECT set_config('chancery.bulk_revocation', 'on', true)" }, [])
      await tx.query(
        {
          name: 'revoke-in-bulk',
          text: "UPDATE certificates SET revoked_at = now() WHERE encode(serial_number, 'hex') = ANY ($1)",
        },
        [numbers],
      )
    })

  async function lists(): Promise<Map<string, ReadCrl & { der: Buffer; bigNumber: bigint }>> {
    const cache = createCrlCache(createCrlStore(store.db), () => 0n)
    await cache.refresh()
    return new Map(
      cache.served().map(({ name, der }) => {
        const bytes = Buffer.from(Buffer.from(der))
        const crl = readCrl(bytes)
        return [name, { ...crl, der: bytes, bigNumber: crl.number }]
      }),
    )
  }
  const served = async () => (await lists()).get('default')!
  const serialsOf = ({ entries }: ReadCrl) => entries.map(({ serial }) => serial).sort()

  test('the first list is there though nothing was ever issued, and the next waits for its time', async () => {
    const instance = anInstance()
    assert.equal(await instance.round(), 1)
    assert.deepEqual(serialsOf(await served()), [])
    assert.equal(await instance.round(), 0)
    await store.sql(`UPDATE crls SET this_update = this_update - interval '61 minutes'`)
    const next = anInstance()
    assert.equal(await next.round(), 1)
  })

  test('a list of several pages holds every revoked certificate once, and its signature is over these bytes', async () => {
    const serials = await certificates(9_000)
    await certificates(100)
    await revoke(serials)
    const instance = anInstance()
    assert.equal(await instance.round(), 1)
    const crl = await served()
    assert.deepEqual(serialsOf(crl), serials.toSorted())
    assert.ok(crl.entries.every(({ reason }) => reason === 1))
    assert.deepEqual(each(instance.built, 'entries', 'bytes'), [[9_000, crl.der.length]])

    const outer = readSingle(crl.der, 0x30, 'CertificateList')
    const [tbs, , signature] = [outer.any(), outer.any(), outer.bitStringOctets()]
    const { der: key } = parseCertificate(authority.certificate).tbs.spki
    assert.ok(verify('sha256', tbs, createPublicKey({ key, format: 'der', type: 'spki' }), signature))
  })

  test('a revocation makes the next list due, a bulk of them too, and so does the operator', async () => {
    const serials = await certificates(30)
    await anInstance().round()
    await revoke(serials.slice(0, 1))
    assert.equal(await anInstance().round(), 1)
    await revoke(serials.slice(1))
    assert.equal(await anInstance().round(), 1)
    assert.equal(await anInstance().round(), 0)
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance().round(), 1)
    assert.deepEqual(serialsOf(await served()), serials.toSorted())
  })

  test('revocations of a bulk job get their list at its end; all others, and the operator, at once', async (context) => {
    context.after(() => store.sql('DELETE FROM bulk_revocations'))
    const serials = await certificates(7)
    const next = () => serials.splice(0, 1)
    await anInstance().round()
    await store.sql(
      "INSERT INTO bulk_revocations (id, filter, reason, author, status) VALUES (gen_random_uuid(), '{}', 0, '{}', 'revoking')",
    )
    await inBulk(next())
    assert.equal(await anInstance().round(), 0)
    await revoke(next())
    assert.equal(await anInstance().round(), 1)
    assert.equal((await served()).entries.length, 2)
    await inBulk(next())
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance().round(), 1)
    await inBulk(next())
    assert.equal(await anInstance().round(), 0)
    await store.sql("UPDATE bulk_revocations SET status = 'done'")
    assert.equal(await anInstance().round(), 1)
    // A job whose instance has gone, and one that lasts.
    await store.sql("UPDATE bulk_revocations SET status = 'revoking', progressed_at = now() - interval '1 minute'")
    await inBulk(next())
    assert.equal(await anInstance().round(), 1)
    await store.sql('UPDATE bulk_revocations SET progressed_at = now()')
    await inBulk(next())
    assert.equal(await anInstance().round(), 0)
    await store.sql("UPDATE crls SET started_at = now() - interval '6 minutes'")
    assert.equal(await anInstance().round(), 1)
    assert.equal(await anInstance().round(), 0)
    assert.equal((await served()).entries.length, 6)
  })

  test('an entry stays until a list that was made after its certificate expired, and then leaves (§3.3)', async () => {
    const [unlisted = '', leaving = '', fresh = ''] = [
      ...(await certificates(2, { notAfter: '-1 minute' })),
      ...(await certificates(1)),
    ]
    await revoke([leaving, fresh], `now() - interval '1 day'`)
    await anInstance().round()
    assert.deepEqual(serialsOf(await served()), [leaving, fresh].sort(), 'on the first list after its expiry')
    // The list before this one was made three hours after the certificates expired.
    await store.sql(`UPDATE certificates SET not_after = not_after - interval '4 hours' WHERE not_after < now()`)
    await revoke([unlisted])
    await anInstance().round()
    assert.deepEqual(
      serialsOf(await served()),
      [unlisted, fresh].sort(),
      'what was revoked after its expiry is listed once',
    )
  })

  test('a list is due when a higher number was signed than the database has, as after a fail-over', async () => {
    await anInstance().round()
    const { number } = await served()
    assert.equal(await anInstance({ newestSigned: () => number }).round(), 0)
    const ahead = number + 5_000n
    await createCrlStore(store.db).raiseNumber((await createCrlStore(store.db).published())[0]!.issuerKey, ahead)
    assert.equal(await anInstance({ newestSigned: () => ahead }).round(), 1)
    assert.equal((await served()).number, ahead + 1n)
  })

  test('a list is not signed when the database has gone back while its entries were read', async () => {
    const older = new Error('older')
    const signed: unknown[] = []
    const instance = anInstance({
      requireCompared: () => Promise.reject(older),
      signCrl: async (...request) => signed.push(request) as never,
    })
    assert.equal(await instance.round(), 0)
    assert.deepEqual([instance.failures, signed], [[older], []])
  })

  test('a certificate may be removed when no list that comes can have it, and while a list is missing none may', async () => {
    const [leaving = '', staying = ''] = await certificates(2, { notAfter: '-1 minute' })
    await revoke([leaving, staying], `now() - interval '1 day'`)
    const instance = anInstance({ policy: { shards: 2 } })
    assert.equal(await instance.leftBefore(), undefined)
    await instance.round()
    await store.sql("UPDATE crls SET this_update = this_update - interval '1 hour' WHERE shards = 2 AND shard = 1")
    const [oldest] = await store.sql<{ at: Date }>('SELECT min(this_update) AS at FROM crls')
    const before = await instance.leftBefore()
    assert.equal(before?.getTime(), oldest!.at.getTime() - 2 * HOUR_MS)
    await store.sql("UPDATE certificates SET not_after = $2 WHERE encode(serial_number, 'hex') = $1", [
      leaving,
      new Date(before!.getTime() - 1000),
    ])
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance({ policy: { shards: 2 } }).round(), 3)
    for (const [name, list] of await lists()) assert.ok(!serialsOf(list).includes(leaving), name)
    assert.ok(serialsOf(await served()).includes(staying))
  })

  test('two builders at once: the number rises, one of them has built for nothing, and nothing is lost', async () => {
    const serials = await certificates(6_000)
    await anInstance().round()
    const first = await served()
    await revoke(serials.slice(0, 5_000))
    const before = await Promise.all([anInstance().round(), anInstance().round()])
    assert.ok(before.includes(1), String(before))
    const second = await served()
    assert.ok(second.number > first.number)
    assert.deepEqual(serialsOf(second), serials.slice(0, 5_000).toSorted())
  })

  test('a builder that was overtaken does not put its older list in the place of the newer', async () => {
    const [early = '', late = ''] = await certificates(2)
    await anInstance().round()
    await revoke([early])
    let overtake: (() => Promise<void>) | undefined = async () => {
      overtake = undefined
      // While the first one signs, another instance goes through a whole build that knows more.
      await revoke([late])
      assert.equal(await anInstance().round(), 1)
    }
    const slow = anInstance({
      async signCrl(...args) {
        await overtake?.()
        return signWithAuthority(...args)
      },
    })
    assert.equal(await slow.round(), 0)
    const crl = await served()
    assert.deepEqual(serialsOf(crl), [early, late].sort())
    assert.equal(await anInstance().round(), 0, 'and nothing is due')
  })

  test('what is revoked while a list is built is in the next one at the latest', async () => {
    const serials = await certificates(5_000)
    await revoke(serials.slice(0, 4_999))
    const [late = ''] = serials.slice(4_999)
    let pages = 0
    const instance = anInstance({
      async encode(job) {
        pages += 1
        if (pages === 1) await revoke([late])
        return encodePage(job)
      },
    })
    assert.equal(await instance.round(), 1)
    assert.equal(await anInstance().round(), 1, 'it counts as missing, listed or not')
    assert.deepEqual(serialsOf(await served()), serials.toSorted())
    assert.equal(await anInstance().round(), 0)
  })

  test('no revocation date is after thisUpdate, though the clock of the database was set back', async () => {
    const serials = await certificates(1)
    await revoke(serials, `now() + interval '1 hour'`)
    await anInstance().round()
    const { entries, thisUpdate } = await served()
    assert.deepEqual(each(entries, 'revokedAt'), [thisUpdate])
  })

  test('a build that fails is told, is tried again after a pause, and its pieces go with the next one', async (t) => {
    let now = performance.now()
    t.mock.method(performance, 'now', () => now)
    await revoke(await certificates(10))
    let broken = true
    const instance = anInstance({
      signCrl: (...args) => (broken ? Promise.reject(new Error('no signer')) : signWithAuthority(...args)),
    })
    assert.equal(await instance.round(), 0)
    assert.match(String(instance.failures[0]), /no signer/)
    broken = false
    assert.equal(await instance.round(), 0, 'not at once')
    now += 1_050
    assert.equal(await instance.round(), 1)
    await store.sql('UPDATE crl_changes SET changes = changes + 1')
    await anInstance().round()
    const [{ numbers } = { numbers: 0 }] = await store.sql<{ numbers: number }>(
      'SELECT count(DISTINCT number)::integer AS numbers FROM crl_pieces',
    )
    assert.equal(numbers, 2, 'the list that is served and the one before it')
  })

  test('who asked for a list learns why there is none, and who asks again starts anew', async () => {
    const crls = createCrlStore(store.db)
    await crls.noteObstacle('nobody asked')
    assert.equal((await crls.lastRequest())?.obstacle, undefined)
    await crls.requestRebuild()
    await anInstance({
      signCrl: () => Promise.reject(new Error('not signed', { cause: new Error('no signer') })),
    }).round()
    assert.equal((await crls.lastRequest())?.obstacle, 'not signed: no signer')
    await crls.requestRebuild()
    assert.equal((await crls.lastRequest())?.obstacle, undefined)
    assert.equal(await anInstance().round(), 1)
  })

  test('a list that fails its lint is not sent to the signer', async () => {
    let asked = 0
    const signCrl: SignCrl = (...words) => {
      asked += 1
      return signWithAuthority(...words)
    }
    // nextUpdate is then thisUpdate, against RFC 5280 §5.1.2.5.
    const instance = anInstance({ policy: { lifetimeMs: 0 }, signCrl })
    assert.equal(await instance.round(), 0)
    assert.ok(instance.failures[0] instanceof MalformedCrl, String(instance.failures[0]))
    assert.equal(asked, 0)
  })

  test('a service that goes down leaves its build, and nobody serves it', async () => {
    await revoke(await certificates(5_000))
    const instance = anInstance({
      async encode(job) {
        for (const { stop } of running) stop()
        return encodePage(job)
      },
    })
    assert.equal(await instance.round(), 0)
    assert.deepEqual([instance.failures, (await lists()).size], [[], 0])
    assert.equal(await anInstance().round(), 1)
  })

  test('numbers go on rising when an older copy of the database is put back', async () => {
    await anInstance().round()
    const { number } = await served()
    await store.sql('TRUNCATE crls, crl_numbers, crl_pieces')
    await sleep(1_100)
    await anInstance().round()
    assert.ok((await served()).number > number)
  })

  // RFC 5280 §5.2.3: numbers rise, and have 20 octets of room.
  describe('after a clock of the database that was 400 days ahead, and is right again', () => {
    beforeEach(async () => {
      await anInstance().round()
      await store.sql(`UPDATE crls SET this_update = this_update + interval '400 days', next_update = next_update + interval '400 days',
                                       started_at = started_at + interval '400 days', number = number + 34560000`)
      await store.sql('UPDATE crl_pieces SET number = number + 34560000')
      await store.sql('UPDATE crl_numbers SET last_number = last_number + 34560000')
    })

    test('the list is built anew at once, with a thisUpdate of now and a higher number', async () => {
      const wrong = (await createCrlStore(store.db).published())[0]!
      assert.equal(wrong.isAhead, true)
      assert.equal(await anInstance().round(), 1)
      const { number, thisUpdate } = await served()
      assert.equal(number, wrong.number + 1n)
      assert.ok(thisUpdate.getTime() <= Date.now() + 60_000, thisUpdate.toISOString())
      assert.equal((await createCrlStore(store.db).published())[0]?.isAhead, false)
      assert.equal(await anInstance().round(), 0)
    })

    test('a build that failed leaves its number, and the next revocation is on the list', async () => {
      const [serial = ''] = await certificates(1)
      await revoke([serial])
      const failing = anInstance({ signCrl: () => Promise.reject(new Error('refused')) })
      assert.equal(await failing.round(), 0)
      const next = anInstance()
      assert.equal(await next.round(), 1, String(next.failures))
      assert.deepEqual(serialsOf(await served()), [serial])
    })

    test('what the service scheduled meanwhile makes no list due', async () => {
      await anInstance().round()
      const instance = anInstance({ scheduledAt: new Date(Date.now() + 400 * 24 * HOUR_MS) })
      assert.equal(await instance.round(), 0)
    })
  })

  /** As if the list had been made so many hours ahead of now(), and the slow clock were as far ahead. */
  async function aListAhead(hours: number) {
    await anInstance().round()
    await store.sql(
      `UPDATE crls SET this_update = this_update + make_interval(hours => $1), next_update = next_update + make_interval(hours => $1),
                       started_at = started_at + make_interval(hours => $1)`,
      [hours],
    )
    await store.sql('INSERT INTO slow_clock (at) VALUES (now() + make_interval(hours => $1))', [hours])
    return (await createCrlStore(store.db).published())[0]!
  }

  test('a list is built anew at once also where the slow clock has followed a clock that was ahead for long', async () => {
    assert.equal((await aListAhead(12)).isAhead, true)
    assert.equal(await anInstance().round(), 1)
  })

  // RFC 5280 §5.1.2.5: whoever has the right clock would take one that was made now for expired.
  test('a clock that is further back than a list lasts makes no list of its own time', async () => {
    const valid = await aListAhead(9600)
    assert.equal(valid.isAhead, false)
    assert.equal(await anInstance().round(), 0)
    await revoke(await certificates(1))
    assert.equal(await anInstance().round(), 1)
    assert.ok((await served()).nextUpdate.getTime() >= valid.nextUpdate.getTime())
  })

  test('nothing leaves the lists by a clock that jumped (§3.3)', async () => {
    const serials = await certificates(2, { notAfter: '-90 days' })
    await revoke(serials, "now() - interval '100 days'")
    await jumped(store, 400)
    await anInstance().round()
    await createCrlStore(store.db).requestRebuild()
    const instance = anInstance()
    await instance.round()
    assert.deepEqual(serialsOf(await served()), serials.toSorted())
    assert.ok((await instance.leftBefore())!.getTime() < Date.now() - 399 * 24 * HOUR_MS)
  })

  test('a number further ahead than the signer takes was never signed, and is left behind', async () => {
    await anInstance().round()
    const { number } = await served()
    await store.sql('UPDATE crl_numbers SET last_number = last_number + 6311520000')
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance().round(), 1)
    const next = (await served()).number
    assert.ok(next > number && next <= number + 60n, `${next} after ${number}`)
  })

  test('numbers that a burst of lists brought ahead of the clock go on rising', async () => {
    await anInstance().round()
    const { number } = await served()
    await store.sql('UPDATE crl_numbers SET last_number = last_number + 2000000')
    await createCrlStore(store.db).requestRebuild()
    await anInstance().round()
    assert.equal((await served()).number, number + 2_000_001n)
  })

  test('a renewed certificate of the issuer has its revocations in the same list', async () => {
    const renewed = Buffer.concat([authority.certificate])
    const other = randomBytes(32)
    await store.sql(`INSERT INTO issuers (fingerprint, certificate, chain) VALUES ($1, $2, '{}')`, [other, renewed])
    const serials = await certificates(2)
    await store.sql(`UPDATE certificates SET issuer_fingerprint = $1 WHERE encode(serial_number, 'hex') = $2`, [
      other,
      serials[0],
    ])
    await revoke(serials)
    await anInstance().round()
    assert.deepEqual(serialsOf(await served()), serials.toSorted())
    await store.sql('DELETE FROM issuers WHERE fingerprint = $1', [other])
  })

  test('a certificate that stands under two certificates of the issuer is listed once, with its earlier date', async () => {
    const other = randomBytes(32)
    const chain = authority.certificate
    await store.sql(`INSERT INTO issuers (fingerprint, certificate, chain) VALUES ($1, $2, '{}')`, [other, chain])
    const serials = await certificates(3)
    const [early = '', late = '', single = ''] = serials
    await revoke(serials, "timestamptz '2026-01-02T00:00:00Z'")
    await store.sql(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, revoked_at)
       SELECT gen_random_uuid(), serial_number, $1, '{}', not_before, not_after, '',
              revoked_at + CASE encode(serial_number, 'hex') WHEN $2 THEN interval '-1 day' ELSE interval '1 day' END
         FROM certificates WHERE encode(serial_number, 'hex') <> $3`,
      [other, early, single],
    )
    const instance = anInstance({ policy: { shards: 2 } })
    assert.equal(await instance.round(), 3)
    const { entries } = await served()
    assert.deepEqual(
      new Map(entries.map(({ serial, revokedAt }) => [serial, revokedAt.toISOString().slice(0, 10)])),
      new Map([[early, '2026-01-01'], ...[late, single].map((serial) => [serial, '2026-01-02'] as const)]),
    )
    assert.deepEqual([entries.length, instance.duplicates], [3, [2]], 'told once a round')
    await store.sql('DELETE FROM issuers WHERE fingerprint = $1', [other])
  })

  test('parts: each certificate is in the complete list and in the one part its serial number says (crl.shards)', async () => {
    const [first = '', ...others] = await certificates(400)
    // A former server may have counted its certificates.
    await store.sql(`UPDATE certificates SET serial_number = '\\x07' WHERE encode(serial_number, 'hex') = $1`, [first])
    const serials = ['07', ...others]
    await revoke(serials)
    assert.equal(await anInstance({ policy: { shards: 4 } }).round(), 5)
    const all = await lists()
    assert.deepEqual([...all.keys()], ['default', 'default/4-0', 'default/4-1', 'default/4-2', 'default/4-3'])
    assert.deepEqual(serialsOf(all.get('default')!), serials.toSorted())
    for (let shard = 0; shard < 4; shard++) {
      const part = all.get(`default/4-${shard}`)!
      const expected = serials.filter((serial) => shardOf(Buffer.from(serial, 'hex'), 4) === shard)
      assert.deepEqual(serialsOf(part), expected.toSorted())
      assert.ok(part.der.includes(Buffer.from(`http://crl.test/default/4-${shard}`)), 'its distribution point')
    }
    assert.equal(new Set([...all.values()].map(({ number }) => number)).size, 5, 'numbers of one issuer are drawn once')

    // Parts of the former count go on for certificates that name them.
    await store.sql('UPDATE crl_changes SET changes = changes + 1')
    assert.equal(await anInstance({ policy: { shards: 1 } }).round(), 5)
    await store.sql(`UPDATE crl_shardings SET last_used_at = now() - interval '500 days'`)
    await store.sql('UPDATE crl_changes SET changes = changes + 1')
    assert.equal(await anInstance({ policy: { shards: 1 } }).round(), 1)
  })

  test('a revocation makes only its own part due, and the complete list', async () => {
    const serials = await certificates(200)
    const policy = { shards: 128 }
    const build = () => anInstance({ policy }).round()
    assert.equal(await build(), 129)
    assert.equal(await build(), 0)
    const [first = '', ...others] = serials
    await revoke([first])
    const before = await lists()
    assert.equal(await build(), 2)
    const own = `default/128-${shardOf(Buffer.from(first, 'hex'), 128)}`
    const after = await lists()
    const changed = [...after].filter(([name, { number }]) => number !== before.get(name)?.number)
    assert.deepEqual(changed.map(([name]) => name).toSorted(), ['default', own])
    assert.deepEqual(serialsOf(after.get(own)!), [first])

    await inBulk(others)
    await build()
    const all = await lists()
    assert.deepEqual(serialsOf(all.get('default')!), serials.toSorted())
    const inParts = [...all].filter(([name]) => name !== 'default').flatMap(([, part]) => serialsOf(part))
    assert.deepEqual(inParts.toSorted(), serials.toSorted(), 'of a bulk too, each in one part')
  })

  test('many revocations at once are all counted, and none waits for another in a circle', async () => {
    const serials = await certificates(400)
    const chunks = Array.from({ length: 8 }, (_, at) => serials.slice(at * 50, at * 50 + 50))
    await Promise.all(chunks.map((chunk, at) => (at % 2 === 0 ? inBulk(chunk) : revoke(chunk))))
    const [counted] = await store.sql('SELECT sum(changes)::integer AS all, count(*)::integer AS rows FROM crl_changes')
    assert.deepEqual(counted?.['all'], 400)
    assert.ok(counted?.['rows'] > 100, 'by the last octet')
  })

  test('a list of the previous release, which does not count by parts, is due when its part has changed', async () => {
    const policy = { shards: 4 }
    await revoke(await certificates(40))
    assert.equal(await anInstance({ policy }).round(), 5)
    // As after the migration.
    await store.sql('UPDATE crls SET part_changes = NULL, part_bulk_changes = NULL')
    assert.equal(await anInstance({ policy }).round(), 5)
    await revoke(await certificates(40))
    // It publishes, and leaves the columns that it does not know.
    await store.sql('UPDATE crls SET changes = (SELECT sum(c.changes) FROM crl_changes c)')
    assert.equal(await anInstance({ policy }).round(), 5)
    assert.equal(await anInstance({ policy }).round(), 0)
  })

  test('without the complete list (crl.complete) there are the parts alone, once no certificate names the other', async () => {
    const policy = { shards: 4, complete: false }
    await revoke(await certificates(40))
    assert.equal(await anInstance({ policy: { shards: 1 } }).round(), 1)
    assert.equal(await anInstance({ policy }).round(), 4)
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance({ policy }).round(), 5, 'certificates of the time before name the complete list')
    await store.sql(`UPDATE crl_shardings SET last_used_at = now() - interval '500 days' WHERE shards = 1`)
    await createCrlStore(store.db).requestRebuild()
    assert.equal(await anInstance({ policy }).round(), 4)
    const parts = await lists()
    assert.deepEqual([...parts.keys()], ['default/4-0', 'default/4-1', 'default/4-2', 'default/4-3'])
  })

  test('pages are read from their index alone', async () => {
    await revoke(await certificates(2_000))
    await store.sql('VACUUM ANALYZE certificates')
    const rows = await store.sql<{ 'QUERY PLAN': string }>(
      `EXPLAIN SELECT id, serial_number, revoked_at, revocation_reason, not_after FROM certificates
        WHERE issuer_fingerprint = decode($1, 'hex') AND revoked_at IS NOT NULL
          AND (not_after >= now() OR revoked_at >= now())
          AND (get_byte(serial_number, length(serial_number) - 1), id) > (7, gen_random_uuid())
        ORDER BY get_byte(serial_number, length(serial_number) - 1), id LIMIT 100`,
      [fingerprint],
    )
    assert.match(rows.map((row) => row['QUERY PLAN']).join('\n'), /Index Only Scan using certificates_revoked_octets/)
  })

  test('the state of a list tells a publication from none', async () => {
    const crls = createCrlStore(store.db)
    const [none] = await crls.states(issuerKey, [COMPLETE], [Buffer.from(fingerprint, 'hex')])
    assert.deepEqual([none?.published, none?.missing, none?.isRequested], [undefined, 0, false])
    const draft = await crls.begin(COMPLETE, [], 86_400)
    const list = { ...COMPLETE, issuerId: 'default', number: draft.number, entries: 0, bytes: 1 }
    const times = { thisUpdate: new Date(), nextUpdate: new Date() }
    assert.equal(await crls.publish({ ...list, ...times }, draft, 1), false, 'its piece is not there')
    await crls.putPiece(issuerKey, draft.number, 0, Buffer.of(0x30))
    assert.equal(await crls.publish({ ...list, ...times }, draft, 1), true)
    assert.equal(await crls.publish({ ...list, ...times }, draft, 1), false, 'something is there by now')
  })
})
