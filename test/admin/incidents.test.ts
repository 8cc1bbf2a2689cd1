/** Incidents over the Admin API: what a key or a name concerns, by owner; what is done about it; and how far that is. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { type AcmeClient, createAcmeClient, csrFor } from '../support/acme-client.ts'
import { administrator } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made, newestEntries } from '../support/bound.ts'
import { ED25519_KEY, P256_KEY, P384_KEY, RSA_KEY, type TestKey } from '../support/keys.ts'
import type { ReceivedMail } from '../support/mail-server.ts'
import { mailsOf, sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const hashOf = ({ spki }: TestKey) => createHash('sha256').update(spki).digest('hex')

describe('incidents', () => {
  const at = issuingOn(() => sharedService('mails'))
  let mails: ReceivedMail[]
  /** Has a contact; `at.client` has none. */
  let owner: AcmeClient
  before(async () => {
    mails = (await mailsOf()).mails
    owner = await createAcmeClient(at.service.directoryUrl)
    const contact = ['mailto:team-a@example.com']
    assert.equal((await owner.newAccount({ termsOfServiceAgreed: true, contact })).status, 201)
  })

  const examine = (text: string, below = false) => at.admin.send('POST', '/incidents/examine', { text, below })
  const begin = (body: object, admin = at.admin) => admin.send('POST', '/incidents', body)
  const ended = (id: string) =>
    until('the CRL contains the revocations', async () => {
      const { json } = await at.admin.get(`/incidents/${id}`)
      return json.crl.state === 'published' && json
    })

  test('a key is the same as PEM, JWK, certificate, CSR and hash', async () => {
    const { der } = await at.client.obtain(['forms.test'], at.responder, { key: P384_KEY })
    const forms = [
      [encodePem('PUBLIC KEY', P384_KEY.spki), 'a public key'],
      [JSON.stringify(P384_KEY.publicKey.export({ format: 'jwk' })), 'a JWK'],
      [encodePem('CERTIFICATE', der), 'the key of a certificate'],
      [
        encodePem('CERTIFICATE REQUEST', Buffer.from(await csrFor(['forms.test'], P384_KEY), 'base64url')),
        'the key of a CSR',
      ],
      [
        hashOf(P384_KEY)
          .toUpperCase()
          .replaceAll(/..(?!$)/g, '$&:'),
        'SHA-256 of the public key',
      ],
    ] as const
    for (const [text, readAs] of forms) {
      const { json, status } = await examine(text)
      assert.equal(status, 200, JSON.stringify(json))
      assert.deepEqual([json.read_as, json.filter], [readAs, { spki_sha256: hashOf(P384_KEY) }])
      assert.deepEqual([json.certificates, json.already_revoked, json.key_blocked], [1, 0, false])
      assert.equal(json.owners[0].account_id, accountIdOf(at.client))
    }
  })

  test('a private key is refused, and no word of it comes back', async () => {
    const pem = P384_KEY.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string
    const jwk = JSON.stringify(P384_KEY.privateKey.export({ format: 'jwk' }))
    for (const text of [pem, jwk]) {
      const reply = await examine(text)
      assert.equal(reply.status, 400)
      assert.match(reply.json.message, /this is a private key/)
      assert.ok(!reply.text.includes(pem.split('\n')[1] as string))
      assert.ok(!reply.text.includes(P384_KEY.privateKey.export({ format: 'jwk' }).d as string))
    }
  })

  test('what cannot be read is refused in a sentence', async () => {
    for (const text of [
      '',
      'two\nlines',
      '{"kty":"EC"}',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    ])
      assert.match((await examine(text)).json.message, /can be read/)
  })

  test('a kid stands for all accounts of its credential, an account and a name for theirs', async () => {
    const credential = await made<MadeCredential>(at.admin, '/eab', { kid: 'team-b' })
    const client = await boundClient(at.service, credential)
    await client.obtain(['www.kid.test'], at.responder)
    const shown = async (text: string, below = false) => {
      const { json } = await examine(text, below)
      return [json.filter, json.certificates]
    }
    assert.deepEqual(await shown('team-b'), [{ eab_kid: 'team-b' }, 1])
    assert.deepEqual(await shown(client.kid), [{ account_id: accountIdOf(client) }, 1])
    assert.deepEqual(await shown('WWW.kid.test'), [{ domain: 'www.kid.test' }, 1])
    assert.deepEqual(await shown('kid.test'), [{ domain: 'kid.test' }, 0])
    assert.deepEqual(await shown('kid.test', true), [{ domain_suffix: 'kid.test' }, 1])
  })

  test('a type of key stands for all certificates that have one', async () => {
    const before = await examine('RSA-2048')
    await at.client.obtain(['type.test'], at.responder, { key: RSA_KEY })
    const { json } = await examine('RSA-2048')
    assert.deepEqual([json.filter, json.read_as], [{ key_type: 'RSA-2048' }, 'a type of key'])
    assert.equal(json.certificates, before.json.certificates + 1)
    assert.deepEqual((await examine('RSA-below-3072')).json.filter, { key_type: 'RSA-below-3072' })
    assert.deepEqual((await examine('rsa-below-3072')).json.filter, { key_type: 'RSA-below-3072' })
    for (const host of ['other', 'rsa']) assert.deepEqual((await examine(host)).json.filter, { domain: host })
    assert.deepEqual((await examine('P-256', true)).json.filter, { domain_suffix: 'p-256' })
  })

  test('a leaked key: revoked, blocked, advised, the owner told, the CRL watched, the report whole', async () => {
    await owner.obtain(['leaked.test'], at.responder)
    await owner.obtain(['leaked2.test'], at.responder)
    const { json: found } = await examine(hashOf(P256_KEY))
    const ofOwner = found.owners.find(({ account_id }: { account_id: string }) => account_id === accountIdOf(owner))
    assert.deepEqual([ofOwner.account_name, ofOwner.certificates], ['team-a@example.com', 2])
    const { filter } = found
    const wanted = { filter, revoke: true, block_key: true, advise_renewal: true, tell_owners: true }
    const preview = await at.admin.send('POST', '/incidents/mail-preview', { filter, revoke: true, remark: 'Call us.' })
    assert.match(preview.json.subject, /^Certificates are being revoked: leaked/)
    assert.match(preview.json.text, /keyCompromise[\s\S]*Call us\./)
    assert.deepEqual([preview.json.accounts, preview.json.mails], [1, 1])

    const wrong = await begin({ ...wanted, confirm_count: found.certificates + 1 })
    assert.match(wrong.text, new RegExp(`must be ${found.certificates}`))
    const body = { ...wanted, remark: 'Call us.', confirm_count: found.certificates }
    const bea = await administrator(at.service, 'bea')
    const both = await Promise.all([begin(body), begin(body, bea)])
    assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409])
    const { json: begun } = both.find(({ status }) => status === 201) as (typeof both)[number]
    const refused = both.find(({ status }) => status === 409)
    assert.match(refused?.json.message, new RegExp(begun.id))

    const done = await ended(begun.id)
    assert.deepEqual([done.job.status, done.job.revoked, done.job.errors_total], ['done', found.certificates, 0])
    assert.deepEqual([done.key_blocked, done.advised, done.mails.total], [true, found.certificates, 1])
    assert.ok(done.crl.lists.length > 0 && done.crl.lists.every(({ contains }: { contains: boolean }) => contains))
    const mail = await until('the owner has the mail', async () => mails.find(({ text }) => text.includes('Call us.')))
    assert.deepEqual(mail.to, ['team-a@example.com'])
    assert.ok(
      (await newestEntries(at.admin, 50)).some(
        ({ action, details }) => action === 'incident.begin' && details['incident_id'] === begun.id,
      ),
    )

    const report = await at.auditor.get(`/incidents/${begun.id}/report`)
    const lines = report.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(lines[0].incident.id, begun.id)
    const certificates = lines.flatMap(({ certificate }) => certificate ?? [])
    assert.equal(certificates.length, found.certificates)
    assert.ok(certificates.every(({ outcome, names }) => outcome === 'revoked' && names.length > 0))
    const { json: owners } = await at.auditor.get(`/incidents/${begun.id}/owners`)
    assert.deepEqual(
      owners
        .map(({ certificates }: { certificates: number }) => certificates)
        .reduce((a: number, b: number) => a + b, 0),
      found.certificates,
    )
    assert.equal((await examine(hashOf(P256_KEY))).json.certificates, 0)
  })

  test('a key without certificates is blocked; nothing is revoked, and the list of incidents has it', async () => {
    const filter = { spki_sha256: hashOf(ED25519_KEY) }
    const reply = await begin({ filter, revoke: true, block_key: true, confirm_count: 0 })
    assert.equal(reply.status, 201, reply.text)
    assert.deepEqual([reply.json.job, reply.json.key_blocked, reply.json.crl.state], [null, true, 'nothing_revoked'])
    const { json } = await at.auditor.get('/incidents?limit=1')
    assert.equal(json[0].id, reply.json.id)
  })

  test('an incident without an act, or a block without a key, is refused; an auditor begins none', async () => {
    const filter = { domain: 'none.test' }
    assert.match((await begin({ filter, confirm_count: 0 })).text, /must choose something/)
    assert.match((await begin({ filter, block_key: true, confirm_count: 0 })).text, /needs the filter/)
    assert.match((await begin({ filter: {}, revoke: true, confirm_count: 0 })).text, /exactly one member/)
    assert.equal((await begin({ filter, revoke: true, confirm_count: 0 }, at.auditor)).status, 403)
  })
})
