/** A service with an Admin API whose objects come from an ACME client: what the tests of certificates and orders share. */

import { type AcmeClient, closeConnections, type Responder, registeredClient, startResponder } from './acme-client.ts'
import { type AdminClient, administrator } from './admin.ts'
import { type Sql, sqlOn } from './database.ts'
import type { TestService } from './service.ts'

export interface Issuing {
  service: TestService
  /** For http-01. */
  responder: Responder
  sql: Sql
  admin: AdminClient
  auditor: AdminClient
  /** Registered. */
  client: AcmeClient
  end(): Promise<void>
}

/** @param service the caller ends it */
export async function startIssuing(service: TestService): Promise<Issuing> {
  const responder = await startResponder(service.http01Port)
  return {
    service,
    responder,
    sql: sqlOn(() => service.database),
    admin: await administrator(service, 'alice'),
    auditor: await administrator(service, 'audrey', 'auditor'),
    client: await registeredClient(service.directoryUrl),
    async end() {
      closeConnections()
      await responder.close()
    },
  }
}
