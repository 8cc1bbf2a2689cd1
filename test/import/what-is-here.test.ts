/** What an import may not touch: credentials that only share a name with former ones, and keys that are blocked here. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { hashSpki } from '../../src/shared/pki/algorithms.ts'
import { CERTIFICATE_KEYS, parseAccountKey } from '../../src/shared/protocol/jwk.ts'
import { newAccountKey } from '../support/acme-client.ts'
import { type FormerAcmeeh, formerAcmeeh } from '../support/acmeeh.ts'
import { administered } from '../support/administered.ts'
import { runChancery } from '../support/commands.ts'
import { createCredential, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

describe('an import beside what is here', () => {
  const { service, sql } = administered(() => sharedService('admin'))
  let former: FormerAcmeeh
  const [bound, blocked] = [newAccountKey(), newAccountKey()]

  before(async () => {
    former = await formerAcmeeh()
    await former.query("INSERT INTO admin.eab_credentials (kid, hmac_key) VALUES ('team-a', repeat('A', 43))")
    await former.addAccount(bound.jwk, { kid: 'team-a' })
    await former.addAccount(blocked.jwk)
    await createCredential(service, 'team-a')
    const { spki } = parseAccountKey(blocked.jwk, CERTIFICATE_KEYS)
    await operate(service, 'keys', 'block', hashSpki({ der: spki() }).toString('hex'))
  })
  after(async () => {
    await former.drop()
  })

  test('leaves a credential of the same name alone, and takes no account with a blocked key', async () => {
    const words = ['-c', `${service.folder}/config.yaml`, 'import', 'acmeeh', '--from', former.address]
    const { code, stderr } = await runChancery(words, former.environment)
    assert.equal(code, 1, stderr)
    assert.match(stderr, /skipped: team-a: another credential has its kid here/)
    assert.match(stderr, /skipped: .*: its key is blocked here/)
    const credentials = await sql('SELECT uses, used FROM eab_credentials')
    assert.deepEqual(credentials, [{ uses: 0, used: false }])
    assert.deepEqual(await sql('SELECT eab_credential_id FROM accounts'), [{ eab_credential_id: null }])
  })
})
