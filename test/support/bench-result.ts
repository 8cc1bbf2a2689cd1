/** Results of a bench as a report would get them, with the figures that a test is about. */

import type { Result } from '../../bench/report/result.ts'

/** CPU in microseconds per operation, floor in microseconds. */
export interface Run {
  perSecond: number
  p50?: number
  service?: number
  signer?: number
  floor?: number
  memory?: Result['memory']
  failures?: Result['failures']
}

export function aResult({ perSecond, p50 = 1, service, signer, floor, memory = {}, failures = [] }: Run): Result {
  const serverTotal = service === undefined ? undefined : service + (signer ?? 0)
  return {
    scenario: 'full-flow',
    directory: '',
    challenge: 'http-01',
    startedAt: '',
    clients: 4,
    processes: 1,
    load: { kind: 'closed' },
    accounts: 4,
    seconds: 2,
    succeeded: 1,
    failed: failures.reduce((sum, { count }) => sum + count, 0),
    offered: 0,
    dropped: 0,
    warmup: undefined,
    refused: 0,
    perSecond,
    steps: {},
    lag: undefined,
    curves: {},
    failures,
    certificatesChecked: 0,
    signedRequests: 0,
    badNonceRetries: 0,
    memory,
    generatorCores: 0,
    series: { slotSeconds: 1, slots: [], server: [] },
    latency: { count: 1, mean: 1, p50, p90: 1, p95: 1, p99: 2, max: 2 },
    cpu: {
      server: { ...(service !== undefined && { service }), ...(signer !== undefined && { signer }) },
      serverTotal,
      generator: 0,
      responder: 0,
    },
    floor:
      floor === undefined
        ? undefined
        : { costs: { verifications: 0, signatures: 0 }, micros: floor, serverRatio: (serverTotal ?? 0) / floor },
  }
}
