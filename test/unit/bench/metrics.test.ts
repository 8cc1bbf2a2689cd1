import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkMetrics } from '../../../bench/check/metrics.ts'
import { createMetrics, METRICS_CONTENT_TYPE, renderMetrics, takeSnapshot } from '../../../src/ops/metrics.ts'

const answer = (body: string, contentType = METRICS_CONTENT_TYPE) => ({
  ...{ status: 200, contentType, body },
  ...{ replayNonce: '', location: '', retryAfter: '', close: false },
})

describe('a page of metrics', () => {
  test('is right when it counts certificates, in whatever number', async () => {
    const metrics = createMetrics()
    checkMetrics(answer(await renderMetrics([await takeSnapshot(metrics)])))
    metrics.certificatesIssued.inc(12)
    checkMetrics(answer(await renderMetrics([await takeSnapshot(metrics)])))
  })

  test('is wrong in another media type, and without the counter', () => {
    assert.throws(
      () => checkMetrics(answer('service_certificates_issued_total 1\n', 'text/html')),
      /came as text\/html/,
    )
    assert.throws(() => checkMetrics(answer('service_ready 1\n')), { kind: 'check-metrics' })
    assert.throws(() => checkMetrics(answer('# TYPE service_certificates_issued_total counter\n')), /do not count/)
  })
})
