/** Somebody who fetches the list of revoked certificates again and again, and remembers what changed. */

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { send } from '../acme-client.ts'
import { readCrl } from '../crl.ts'

const PAUSE_MS = 50

interface Seen {
  number: bigint
  serials: Set<string>
}

export class RelyingParty {
  readonly seen: Seen[] = []
  readonly #url: () => string
  #isOver = false
  readonly #last: Promise<void>

  /** @param baseUrl of an instance, which may be another one after a restart */
  constructor(baseUrl: () => string) {
    this.#url = () => `${baseUrl()}/crl`
    this.#last = this.#poll()
  }

  /** Whether the newest list that came has all these serial numbers, in lower-case hexadecimal. */
  sees(serials: readonly string[]): boolean {
    const newest = this.seen.at(-1)
    return newest !== undefined && serials.every((serial) => newest.serials.has(serial))
  }

  /** No list had a lower number than the one before, or lacked one of its entries. Within a test no certificate expires. */
  assertNeverBack(): void {
    for (const [at, { number, serials }] of this.seen.entries()) {
      const before = this.seen[at - 1]
      assert.ok(number >= (before?.number ?? 0n), `list ${number} came after list ${before?.number}`)
      for (const serial of before?.serials ?? []) assert.ok(serials.has(serial), `${serial} left the list`)
    }
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#last
  }

  async #poll(): Promise<void> {
    while (!this.#isOver) {
      // An instance that is just being restarted answers nobody.
      const answer = await send({ method: 'GET', url: this.#url() }).catch(() => undefined)
      if (answer?.status === 200) {
        const { number, entries } = readCrl(answer.body)
        const last = this.seen.at(-1)
        if (number !== last?.number || entries.length !== last.serials.size)
          this.seen.push({ number, serials: new Set(entries.map(({ serial }) => serial)) })
      }
      await sleep(PAUSE_MS)
    }
  }
}
