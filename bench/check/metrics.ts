/** Checks of the page of metrics, as Prometheus reads it. */

import { Failure } from '../client/failure.ts'
import type { HttpResponse } from '../client/response-parser.ts'

/** @throws Failure `check-metrics` */
export function checkMetrics({ contentType, body }: HttpResponse): void {
  if (!contentType.startsWith('text/plain'))
    throw new Failure('check-metrics', `the metrics came as ${contentType || 'no media type'}`)
  if (!/^service_certificates_issued_total \d+$/m.test(body))
    throw new Failure('check-metrics', 'the metrics do not count the certificates that were issued')
}
