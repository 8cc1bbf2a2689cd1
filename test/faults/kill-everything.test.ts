/** kill -9 of the service, PostgreSQL, the mail server and the receivers while certificates are issued. */

import { test } from 'node:test'
import { killEverything } from '../events/kill-everything.ts'
import { WAIT_MS } from '../support/patience.ts'

test('no event is lost, and no mail comes under two names', async () => {
  const result = await killEverything({ certificates: 60, kills: 1, boundMs: 2 * WAIT_MS })
  console.log(JSON.stringify(result))
})
