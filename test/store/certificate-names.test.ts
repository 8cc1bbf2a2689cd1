/** Names that an earlier release has recorded as a former CA wrote them, and what counts as a successor. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { succeededAmong } from '../../src/admin/certificates/certificate-list.ts'
import { namesOf, readNames } from '../../src/domain/certificate-names.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { createCertificateImport, revokeListed } from '../../src/store/certificate-import.ts'
import { createNameWalk } from '../../src/store/certificate-names-store.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { testCa } from '../support/ca.ts'
import { type FormerNames, issueFormerly } from '../support/cas/former-ca.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { anAccount, newId, useStores } from './support.ts'

const ISSUER = Buffer.alloc(32, 7)

describe('the names of imported certificates', () => {
  const store = useStores(() => checked.end())
  const folder = temporaryFolder()
  let checked: DatabasePool
  let accountId: string
  before(async () => {
    checked = await openCheckedDatabase(store.settings)
    await store.certificates.saveIssuer(ISSUER, Buffer.from('certificate'), [Buffer.from('certificate')])
    accountId = (await anAccount(store)).requester.accountId
  })

  /** @param names as an earlier release has recorded them; those of today where they are left out */
  async function record(names: FormerNames, more: { names?: readonly string[]; notAfter?: Date } = {}) {
    const { der, serial } = await issueFormerly(await testCa(folder), names)
    const { tbs } = parseCertificate(der)
    const id = newId()
    const [serialNumber, spkiSha256] = [Buffer.from(serial, 'hex'), randomBytes(32)]
    const { notBefore, notAfter } = tbs
    const row = { id, accountId, serialNumber, notBefore, notAfter, der, spkiSha256, ...namesOf(tbs), ...more }
    if (more.names) row.identifiers = undefined
    await createCertificateImport(store.db).record([ISSUER], [row], 'as its issuer')
    return { id, serial }
  }
  const namesIn = async (id: string) =>
    (
      await store.db.query<{ names: string[]; identifiers: number | null }>(
        { name: 'names', text: 'SELECT names, identifiers FROM certificates WHERE id = $1' },
        [id],
      )
    )[0]
  const eventsOf = () =>
    store.db.query({ name: 'events', text: "SELECT kind FROM event_deliveries WHERE kind LIKE 'certificate.%'" }, [])

  test('are put into the canonical spelling once, without an event, from where an instance has stopped', async () => {
    const capitals = await record({ sans: [{ type: 'dns', value: 'WWW.Old.Test' }] }, { names: ['WWW.Old.Test'] })
    const unnamed = await record({ subject: 'CN=Jane Doe', sans: [] }, { names: [] })
    const right = await record({ sans: [{ type: 'dns', value: 'right.test' }] })
    const revoked = await record(
      { subject: 'CN=gone', sans: [{ type: 'dns', value: 'Gone.Test' }] },
      { names: ['Gone.Test'] },
    )
    const entry = { serialNumber: revoked.serial, revokedAt: new Date(), reason: 4 }
    await revokeListed(store.db, { issuerFingerprints: [ISSUER], entries: [entry] })
    const before = await eventsOf()

    const walk = (read: typeof readNames) => createNameWalk(store.db, read)
    const away = () => {
      throw new Error('away')
    }
    await assert.rejects(walk(away)(), /away/)
    const round = walk(readNames)
    assert.equal(await round(), 3)
    assert.equal(await round(), undefined, 'the walk has ended')
    assert.deepEqual(await namesIn(capitals.id), { names: ['www.old.test'], identifiers: null })
    assert.deepEqual(await namesIn(unnamed.id), { names: ['jane doe'], identifiers: null })
    assert.deepEqual(await namesIn(right.id), { names: ['right.test'], identifiers: null })
    assert.deepEqual(await namesIn(revoked.id), { names: ['gone.test', 'gone'], identifiers: 1 })
    assert.deepEqual(await eventsOf(), before)
    assert.equal(await walk(readNames)(), undefined, 'nor does another instance begin it again')
  })

  test('that no order could have are none that a successor must have', async () => {
    const notAfter = (days: number) => new Date(Date.now() + days * 86_400_000)
    const both: FormerNames = { subject: 'CN=Web Server 7', sans: [{ type: 'dns', value: 'seven.test' }] }
    const old = await record(both, { notAfter: notAfter(5) })
    const other = await record({ subject: 'CN=eight.test', sans: [] }, { notAfter: notAfter(5) })
    assert.deepEqual(await succeededAmong(checked, [old.id, other.id]), new Set())
    await record({ sans: [{ type: 'dns', value: 'seven.test' }] }, { notAfter: notAfter(50) })
    await record({ sans: [{ type: 'dns', value: 'eight.test' }] }, { notAfter: notAfter(50) })
    assert.deepEqual(await succeededAmong(checked, [old.id, other.id]), new Set([old.id, other.id]))
  })
})
