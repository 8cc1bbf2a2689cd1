/** Whether the mail server answers: connects, greets and signs in, at most twice a minute. */

import type { CheckStatus } from '../../ops/health.ts'
import type { MailTransport } from './transport.ts'

/** Health is asked more often than a mail server likes to be greeted. */
const LIFE_MS = 30_000

export class MailProbe {
  /** Of its own: a probe that takes too long closes all connections of its transport. */
  readonly #transport: Pick<MailTransport, 'probe' | 'close'>
  readonly #lifeMs: number
  #last: { at: number; status: CheckStatus } | undefined
  #running: Promise<CheckStatus> | undefined

  constructor(transport: Pick<MailTransport, 'probe' | 'close'>, lifeMs = LIFE_MS) {
    this.#transport = transport
    this.#lifeMs = lifeMs
  }

  /** The last answer while it is fresh, or the next one. */
  status(): Promise<CheckStatus> {
    if (this.#last && performance.now() - this.#last.at < this.#lifeMs) return Promise.resolve(this.#last.status)
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  close(): void {
    this.#transport.close()
  }

  async #ask(): Promise<CheckStatus> {
    const status = await this.#transport.probe().then(
      (): CheckStatus => 'ok',
      (): CheckStatus => 'error',
    )
    this.#last = { at: performance.now(), status }
    return status
  }
}
