/** A key that is known to be compromised, in each of its uses (docs/decisions/compromised-keys.md). */

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { hashSpki } from '../../src/shared/pki/algorithms.ts'
import { revokeListed } from '../../src/store/certificate-import.ts'
import {
  type AcmeClient,
  accountKeyOf,
  changeKey,
  createAcmeClient,
  csrFor,
  newAccountKey,
  problemOf,
  registeredClient,
  revoke,
  send,
  serialOf,
} from '../support/acme-client.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, made } from '../support/bound.ts'
import { readCrl } from '../support/crl.ts'
import { rowsIn } from '../support/database.ts'
import { freshP256Key, type TestKey } from '../support/keys.ts'
import type { ReceivedMail } from '../support/mail-server.ts'
import { configOf, hangUp } from '../support/reload.ts'
import { mailsOf, sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const SUPERSEDED = 4
const KEY_COMPROMISE = 1

describe('a compromised key', () => {
  const at = issuingOn(() => sharedService('mails'))
  const folder = temporaryFolder()
  let mails: ReceivedMail[]
  before(async () => {
    mails = (await mailsOf()).mails
  })

  const sql = (text: string, values: unknown[] = []) => rowsIn(at.service.database, text, values)
  const hashOf = ({ spki }: TestKey) => hashSpki({ der: spki }).toString('hex')
  const isBlocked = async (key: TestKey) =>
    (await sql("SELECT FROM blocked_keys WHERE spki_sha256 = decode($1, 'hex')", [hashOf(key)])).length > 0
  const recorded = async (der: Buffer) =>
    (await sql('SELECT revoked_at, revocation_reason AS reason FROM certificates WHERE der = $1', [der]))[0]
  const holderOf = ({ privateKey, publicKey }: TestKey) =>
    createAcmeClient(at.service.directoryUrl, accountKeyOf('ES256', privateKey, publicKey))
  const prove = async (key: TestKey, der: Buffer) => {
    const answer = await revoke(await holderOf(key), der, KEY_COMPROMISE)
    return answer.status === 200 ? '200' : problemOf(answer)
  }
  const listed = async (der: Buffer) => {
    const { body } = await send({ method: 'GET', url: `${at.service.baseUrl}/crl` })
    return readCrl(body).entries.find(({ serial }) => serial === serialOf(der))
  }
  const registered = async (contact: string): Promise<AcmeClient> => {
    const client = await createAcmeClient(at.service.directoryUrl)
    assert.equal((await client.newAccount({ termsOfServiceAgreed: true, contact: [`mailto:${contact}`] })).status, 201)
    return client
  }
  const ready = async (name: string, client = at.client) => {
    const order = await client.newOrder([name])
    await client.authorize(order, at.responder)
    return order.json.finalize as string
  }
  const asked = async (name: string, key: TestKey, client = at.client) =>
    problemOf(await client.post(await ready(name, client), { csr: await csrFor([name], key) }))

  describe('proved by itself (RFC 8555 §7.6)', () => {
    const states: Record<string, (der: Buffer) => Promise<unknown>> = {
      valid: async () => undefined,
      'revoked by its account': (der) => revoke(at.client, der, SUPERSEDED),
      'revoked by an administrator': (der) =>
        at.admin.send('POST', `/certificates/${serialOf(der)}/revoke`, { reason: 9 }),
      expired: (der) => sql("UPDATE certificates SET not_after = now() - interval '1 minute' WHERE der = $1", [der]),
      imported: (der) => sql('UPDATE certificates SET account_id = NULL, order_id = NULL WHERE der = $1', [der]),
    }
    for (const [state, bring] of Object.entries(states))
      test(`blocks the key of a certificate that is ${state}, and is the reason from then on`, async () => {
        const key = freshP256Key()
        const { der } = await at.client.obtain(['state.test'], at.responder, { key })
        await bring(der)
        const former = await recorded(der)
        assert.equal(await prove(key, der), '200')
        const { revoked_at, reason } = (await recorded(der)) ?? {}
        assert.equal(reason, KEY_COMPROMISE)
        if (former?.['revoked_at']) assert.deepEqual(revoked_at, former['revoked_at'], 'the date stays (BR 7.2.2)')
        assert.equal(await isBlocked(key), true)
        assert.equal(await asked('state.test', key), '400 badCSR')
        assert.equal(await prove(key, der), '400 alreadyRevoked', 'nothing is left to be changed')
      })

    test('is on the list as keyCompromise with the date of the revocation (RFC 5280 §5.3.1)', async () => {
      const key = freshP256Key()
      const { der } = await at.client.obtain(['listed.test'], at.responder, { key })
      await revoke(at.client, der, SUPERSEDED)
      const before = await until('the list has it', () => listed(der))
      assert.equal(before.reason, SUPERSEDED)
      assert.equal(await prove(key, der), '200')
      const entry = await until('the list has the reason', async () => {
        const now = await listed(der)
        return now?.reason === KEY_COMPROMISE && now
      })
      assert.deepEqual(entry.revokedAt, before.revokedAt)
    })

    test('ends all other certificates that have it, and their owners are told', async () => {
      const key = freshP256Key()
      const other = await registered('other@example.com')
      const [{ der }, { der: good }, { der: superseded }, { der: own }] = [
        await at.client.obtain(['proof.test'], at.responder, { key }),
        await other.obtain(['shares.test'], at.responder, { key }),
        await other.obtain(['shared.test'], at.responder, { key }),
        await other.obtain(['own-key.test'], at.responder, { key: freshP256Key() }),
      ]
      await revoke(other, superseded, SUPERSEDED)
      assert.equal(await prove(key, der), '200')
      for (const one of [good, superseded])
        await until('it is revoked', async () => (await recorded(one))?.['reason'] === KEY_COMPROMISE)
      await until('its owner has the mail', () =>
        mails.some(({ to, text }) => to.includes('other@example.com') && /shares\.test[\s\S]*keyCompromise/.test(text)),
      )
      assert.equal((await recorded(own))?.['revoked_at'], null)
    })
  })

  describe('as the page says', () => {
    const ways: Record<string, (known: { key: TestKey; name: string; der: Buffer }) => Promise<unknown>> = {
      'Proof: revoke-cert signed by the key, reason 1': async ({ key, der }) =>
        assert.equal(await prove(key, der), '200'),
      'The ordering account says so (reason 1)': async ({ der }) =>
        assert.equal((await revoke(at.client, der, KEY_COMPROMISE)).status, 200),
      'Another account that has authority over the names says so': async ({ name, der }) => {
        const other = await registeredClient(at.service.directoryUrl)
        await ready(name, other)
        assert.equal((await revoke(other, der, KEY_COMPROMISE)).status, 200)
      },
      'An administrator revokes it, alone, in bulk or from a CRL (reason 1)': ({ der }) =>
        at.admin.send('POST', `/certificates/${serialOf(der)}/revoke`, { reason: KEY_COMPROMISE }),
      'An incident about the key, with its block': ({ key }) =>
        made(at.admin, '/incidents', { filter: { spki_sha256: hashOf(key) }, block_key: true, confirm_count: 2 }),
      '`POST /blocked-keys`': ({ key }) => made(at.admin, '/blocked-keys', { spki_sha256: hashOf(key) }),
      '`security.blocked_keys_file`': async ({ key }) => {
        const file = path.join(folder, 'keys.txt')
        writeFileSync(file, hashOf(key))
        const before = configOf(at.service).text()
        configOf(at.service).edit((config) => {
          config['security'] = { ...config['security'], blocked_keys_file: file }
        })
        await hangUp(at.service, 'blocked keys read')
        configOf(at.service).write(before)
        await hangUp(at.service, 'configuration read again')
      },
      "The signer's records, or an import, have the revocation": async ({ der }) => {
        const [issuer] = await sql('SELECT issuer_fingerprint AS fingerprint FROM certificates WHERE der = $1', [der])
        const entries = [{ serialNumber: serialOf(der), revokedAt: new Date(), reason: KEY_COMPROMISE }]
        const queries = {
          query: async <R>({ text }: { text: string }, values: readonly unknown[]) =>
            (await sql(text, [...values])) as R[],
        }
        await revokeListed(queries, { issuerFingerprints: [issuer?.['fingerprint'] as Buffer], entries })
      },
    }
    const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/decisions/compromised-keys.md'), 'utf8')
    const rows = page
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(1)
      .map((line) => line.slice(2, -2).split(' | '))

    test('which names each way', () => {
      assert.deepEqual(
        rows.map(([way]) => way),
        Object.keys(ways),
      )
    })

    for (const [place, [way = '', ofCertificate, ofKey, ofAccount, ofOthers]] of rows.entries())
      test(`${way}: ${[ofCertificate, ofKey, ofAccount, ofOthers].join(', ')}`, async () => {
        const key = freshP256Key()
        const name = `way-${place}.test`
        const { der } = await at.client.obtain([name], at.responder, { key })
        const other = await at.client.obtain([`other-${name}`], at.responder, { key })
        const holder = await holderOf(key)
        const contact = `${name}@example.com`
        await holder.newAccount({ termsOfServiceAgreed: true, contact: [`mailto:${contact}`] })
        const finalize = await ready(name, holder)
        await ways[way]?.({ key, name, der })

        assert.equal((await recorded(der))?.['reason'], ofCertificate === 'keyCompromise' ? KEY_COMPROMISE : null)
        const isBlockedNow = ofKey === 'blocked'
        assert.equal(await isBlocked(key), isBlockedNow)
        const { json } = await at.admin.get(`/accounts/${accountIdOf(holder)}`)
        assert.equal(json.status, ofAccount === 'revoked' ? 'revoked' : 'valid')
        if (ofOthers === 'revoked for keyCompromise')
          await until('they are', async () => (await recorded(other.der))?.['reason'] === KEY_COMPROMISE)
        assert.equal(
          (await recorded(other.der))?.['reason'],
          ofOthers === 'revoked for keyCompromise' ? KEY_COMPROMISE : null,
        )
        const issued = await holder.post(finalize, { csr: await csrFor([name], freshP256Key()) })
        if (!isBlockedNow) return assert.equal(issued.json.status, 'valid')

        assert.equal(problemOf(issued), '401 unauthorized')
        assert.equal(problemOf(await holder.newOrder([name])), '401 unauthorized')
        assert.equal(problemOf(await holder.newAccount({ termsOfServiceAgreed: true })), '401 unauthorized')
        assert.equal(problemOf(await changeKey(holder, newAccountKey())), '401 unauthorized')
        const open = "SELECT FROM authorizations WHERE account_id = $1 AND status IN ('valid', 'pending')"
        assert.deepEqual(await sql(open, [accountIdOf(holder)]), [])
        await until('its holder is told', () =>
          mails.some(({ to, text }) => to.includes(contact) && /key is blocked/.test(text)),
        )
      })

    test('what an account has said is proved afterwards: the other certificates go, too', async () => {
      const key = freshP256Key()
      const { der } = await at.client.obtain(['called.test'], at.responder, { key })
      const { der: other } = await at.client.obtain(['called2.test'], at.responder, { key })
      assert.equal((await revoke(at.client, der, KEY_COMPROMISE)).status, 200)
      assert.equal(await asked('called.test', key), '400 badCSR')
      assert.equal(await prove(key, der), '200')
      await until('the other is revoked', async () => (await recorded(other))?.['reason'] === KEY_COMPROMISE)
    })
  })

  describe('that an account has', () => {
    test('is shown with its account, its authorizations and certificates, as JWK, PEM and hash', async () => {
      const key = freshP256Key()
      const client = await holderOf(key)
      await client.newAccount({ termsOfServiceAgreed: true })
      await client.obtain(['examined.test'], at.responder, { key: freshP256Key() })
      const forms = [
        JSON.stringify(key.publicKey.export({ format: 'jwk' })),
        key.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
        hashOf(key),
      ]
      for (const text of forms) {
        const { json } = await at.admin.send('POST', '/incidents/examine', { text })
        const { account_name: _, ...account } = json.key_account
        assert.deepEqual(account, {
          account_id: accountIdOf(client),
          status: 'valid',
          certificates: 1,
          authorizations: 1,
        })
        assert.equal(json.certificates, 0)
      }
    })
  })
})
