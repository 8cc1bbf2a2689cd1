/** What has to be right once another server is the primary: leadership, and the CRL. */

import assert from 'node:assert/strict'
import type { HeldCertificate } from '../../bench/client/persistent-client.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { announceInstance, type LeaderRole } from '../../src/store/instance-presence.ts'
import { send } from '../support/acme-client.ts'
import { readCrl } from '../support/crl.ts'
import type { TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const ROLES: Record<LeaderRole, true> = {
  cleanup: true,
  expiration: true,
  challenge: true,
  retention: true,
  audit: true,
  backends: true,
  test_sign: true,
  archive: true,
  crl: true,
}

/** Both instances are seen, and no lock of a lost connection keeps anybody from leading. */
export async function assertLeadership(settings: DatabaseSettings, instances: number): Promise<void> {
  const witness = await announceInstance(settings, () => undefined)
  try {
    await until('all instances are seen', async () => (await witness.liveInstances()).length === instances + 1)
    for (const role of Object.keys(ROLES) as LeaderRole[])
      await until(`the role ${role} is free now and then`, () => witness.lead(role, async () => undefined))
  } finally {
    await witness.close()
  }
}

/** Every instance serves a list with all that was revoked. */
export async function assertPublished(
  services: readonly TestService[],
  revoked: readonly HeldCertificate[],
): Promise<void> {
  const serials = revoked.map(({ leaf }) => leaf.serialNumber.toLowerCase())
  for (const { baseUrl } of services)
    await until(`${serials.length} revocations in the list of ${baseUrl}`, async () => {
      const { status, body } = await send({ method: 'GET', url: `${baseUrl}/crl` })
      assert.equal(status, 200)
      const listed = new Set(readCrl(body).entries.map(({ serial }) => serial))
      return serials.every((serial) => listed.has(serial))
    })
}
