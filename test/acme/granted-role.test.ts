/** A service whose role does not own the tables, with the grants of docs/operations/administration.md. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { closeConnections, registeredClient, startResponder } from '../support/acme-client.ts'
import { type AdminClient, adminConfig, administrator } from '../support/admin.ts'
import { type GrantedRole, grantedRole } from '../support/granted-role.ts'
import { chancery } from '../support/operator.ts'
import { startTestService, type TestService } from '../support/service.ts'

const HISTORY = { name: 'new keys', profile_data: { reuse_key: false } }

describe('a service that does not own its tables', () => {
  let granted: GrantedRole
  let service: TestService
  let admin: AdminClient
  before(async () => {
    granted = await grantedRole()
    service = await startTestService({
      database: { ...granted.database, drop: async () => undefined },
      config: {
        ...adminConfig(),
        database: { auto_setup: false },
        nonce: { store: 'database', audit_consumed: true },
        security: { rate_limits: { backend: 'database' } },
        crl: { enabled: true },
      },
    })
    admin = await administrator(service, 'alice')
  })
  after(async () => {
    closeConnections()
    await service?.dispose()
    await granted?.drop()
  })

  test('issues, revokes, and publishes the CRL, with nonces and limits that instances share', async () => {
    const responder = await startResponder(service.http01Port)
    const client = await registeredClient(service.directoryUrl)
    await client.obtain(['granted.test'], responder).finally(() => responder.close())
    const [{ serial_number: serial }] = (await admin.get('/certificates')).json
    assert.equal((await admin.send('POST', `/certificates/${serial}/revoke`)).status, 200)
    const rebuilt = await admin.send('POST', '/crl/rebuild')
    assert.deepEqual([rebuilt.status, rebuilt.json.revoked_count], [200, 1], rebuilt.text)
    const complaints = service.log.filter((line) => /permission denied|must be owner/.test(JSON.stringify(line)))
    assert.deepEqual(complaints, [])
  })

  test('a profile that needs an index says that the owner has to make it', async () => {
    const refused = await admin.send('POST', '/csr-profiles', HISTORY)
    assert.deepEqual([refused.status, refused.json.error], [503, 'unavailable'])
    assert.match(refused.json.message, /owner of the tables.*db search-indexes/)
  })

  test('the owner makes all indexes with db search-indexes, and the service stores the profile', async () => {
    assert.match((await chancery(service, 'db', 'search-indexes')).stderr, /must be owner/)
    await granted.asOwner(`ALTER DATABASE ${granted.database.connection.database} RESET role`)
    const { code, stderr } = await chancery(service, 'db', 'search-indexes', '--history')
    assert.equal(code, 0, stderr)
    assert.equal((await admin.send('POST', '/csr-profiles', HISTORY)).status, 201)
  })
})
