import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adminRequest } from '../support/admin.ts'
import { sharedService } from '../support/shared-service.ts'

test('admin_api.enabled: false, the default, offers nothing', async () => {
  const service = await sharedService('acme')
  for (const target of ['', '/auth/login', '/openapi.json'])
    assert.equal((await adminRequest(service.baseUrl, 'GET', target)).status, 404)
})
