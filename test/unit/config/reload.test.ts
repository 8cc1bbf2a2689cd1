import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planReload } from '../../../src/config/reload.ts'
import { words } from '../../support/words.ts'
import { aConfig } from './support.ts'

test('live keys are applied, the others wait for a restart and are named; what nothing reads is not', () => {
  const running = aConfig({})
  const before = structuredClone(running)
  const next = aConfig({
    logging: { level: 'DEBUG', format: 'human' },
    security: { rate_limits: { new_order: { requests: 5, window_seconds: 60 } }, allowed_algorithms: ['ES384'] },
    notifications: { expiration_warning_days: [3] },
    smtp: { host: 'mail.test' },
    nonce: { length: 64 },
    metrics: { enabled: true, path: '/m' },
    server: { port: 9000 },
  })
  const plan = planReload(running, next)
  const live = words`
    logging.level metrics.enabled notifications.expiration_warning_days
    security.rate_limits.new_order.requests security.rate_limits.new_order.window_seconds
  `
  const restart = words`logging.format metrics.path security.allowed_algorithms server.port smtp.host`
  assert.deepEqual([plan.live.toSorted(), plan.restart.toSorted()], [live, restart])
  assert.equal(plan.config.logging.level, 'DEBUG')
  assert.equal(plan.config.logging.format, 'json')
  assert.equal(plan.config.security.rate_limits.new_order.requests, 5)
  assert.equal(plan.config.server.port, 8443)
  assert.deepEqual(running, before)
})

test('the same file again changes nothing', () =>
  assert.deepEqual(planReload(aConfig({}), aConfig({})), { config: aConfig({}), live: [], restart: [] }))
