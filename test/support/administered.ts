/** The tests of the Admin API begin with a service, and users of it who have signed in. */

import { after, before } from 'node:test'
import type { Role } from '../../src/domain/administrator.ts'
import { closeConnections } from './acme-client.ts'
import { type AdminClient, administrator } from './admin.ts'
import { sqlOn } from './database.ts'
import { type Issuing, startIssuing } from './issuing.ts'
import type { TestService } from './service.ts'

type Start = () => Promise<TestService>

/** For the suite that it is called in: filled before its first test. @param start such as `() => sharedService('admin')` */
export function administered(start: Start) {
  const service = {} as TestService
  before(async () => void Object.assign(service, await start()))
  after(closeConnections)
  return {
    service,
    sql: sqlOn(() => service.database),
    as(username: string, role?: Role, scope?: readonly string[]): AdminClient {
      const client = {} as AdminClient
      before(async () => void Object.assign(client, await administrator(service, username, role, scope)))
      return client
    },
  }
}

/** Starts a service as `administered` does, with an ACME client and what it gets. */
export function issuingOn(start: Start): Issuing {
  const at = {} as Issuing
  before(async () => void Object.assign(at, await startIssuing(await start())))
  after(() => at.end?.())
  return at
}
