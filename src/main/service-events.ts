/** What the parts of the service report, as log lines and metrics. */

import type { Logger } from 'pino'
import type { Metrics } from '../ops/metrics.ts'
import type { ThreadEvent } from '../runtime/thread.ts'
import type { DispatcherEvents } from '../services/validation-dispatcher.ts'

export function dispatcherEvents(log: Logger, metrics: Metrics): DispatcherEvents {
  return {
    attempted({ authorizationId, accountId, type, identifier, requestId }, result, verdict, durationMs) {
      metrics.challengesValidated.inc({ result })
      if (verdict.caa) metrics.caaChecks.inc({ result: verdict.caa })
      const facts = {
        event: 'validation',
        result,
        authorizationId,
        accountId,
        type,
        identifier: identifier.value,
        requestId,
      }
      const found = verdict.ok ? {} : { problem: verdict.problem, detail: verdict.detail }
      log.info({ ...facts, ...found, ms: Math.round(durationMs), evidence: verdict.evidence }, 'validation attempt')
    },
    interrupted({ authorizationId, type }, error) {
      log.error({ authorizationId, type, err: error }, 'a validation attempt gave no verdict; it is repeated')
    },
  }
}

export function threadEvents(log: Logger, onBroken: (reason: string) => void): (event: ThreadEvent) => void {
  return ({ type, name, ...facts }) => {
    switch (type) {
      case 'crashed':
        log.error({ thread: name, ...facts }, 'thread crashed and is restarted')
        break
      case 'escalated':
        log.fatal({ thread: name, ...facts }, 'thread crashes again and again')
        onBroken(`${name} crashes again and again`)
        break
      case 'stuck':
        log.fatal({ thread: name, ...facts }, 'thread does not end')
        break
      case 'refused':
        log.warn({ thread: name, ...facts }, 'a message was refused')
        break
      default:
        log.debug({ thread: name, ...facts }, `thread ${type}`)
    }
  }
}
