/** Rate limits of a shared service, which SIGHUP changes: each description has its own. */

import { configOf, hangUp } from './reload.ts'
import type { TestService } from './service.ts'

export const HOUR = 3600
const MANY = { requests: 100_000, window_seconds: 1 }
/** No test meets these limits; tests lay their own over them. */
export const OPEN_LIMITS = {
  new_nonce: MANY,
  new_account: MANY,
  new_order: MANY,
  new_order_per_identifier: MANY,
  challenge: MANY,
  challenge_validation: MANY,
  account_orders: MANY,
}

export async function limit(
  service: TestService,
  rules: object,
  backend: 'memory' | 'database' = 'memory',
): Promise<void> {
  configOf(service).edit((config) => {
    const rate_limits = { enabled: true, backend, ...OPEN_LIMITS, ...rules }
    config['security'] = { ...config['security'], rate_limits }
  })
  await hangUp(service)
}
