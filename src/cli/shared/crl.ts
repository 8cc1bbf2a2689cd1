/** `chancery crl rebuild`: asks the running service for new lists, and waits for them. */

import { setTimeout as sleep } from 'node:timers/promises'
import { crlName } from '../../domain/crl-scope.ts'
import type { OperationCaller } from '../operations/caller.ts'
import { type SharedCommand, shared } from '../operations/shared-command.ts'
import { CommandError } from '../values.ts'

/** A list of millions of entries takes a minute, and a build under way ends first. */
const WAIT_MS = 300_000
const LOOK_MS = 250
/** Short lists are ready before this, so no message is needed. */
const NOTICE_AFTER_MS = 2_000

export const CRL: readonly SharedCommand[] = [
  shared({
    usage: 'crl rebuild',
    about:
      'Have a new CRL built and wait until it is published (needs crl.enabled); --json prints a line for each list',
    async run(caller, { json }) {
      await caller.page('rebuildCrl', { body: { wait_seconds: 0 } })
      for (const list of await newLists(caller)) console.log(json ? JSON.stringify(factsOf(list)) : textOf(list))
      return 0
    },
  }),
]

interface Crl {
  issuer: string
  shard: number
  shards: number
  number: string
  entries: number
  bytes: number
  this_update: string
  next_update: string
}

interface Crls {
  rebuilding: boolean
  error: string | null
  lists: Crl[]
}

function factsOf({ issuer, shard, shards, number, entries, bytes, this_update, next_update }: Crl) {
  return { crl: crlName(issuer, { shard, shards }), number, entries, bytes, this_update, next_update }
}

function textOf(list: Crl): string {
  const { crl, number, entries, bytes, this_update: from, next_update: to } = factsOf(list)
  return `CRL ${crl}: number ${number}, ${entries} entries, ${bytes} bytes\n  from ${from} to ${to}`
}

async function newLists(caller: OperationCaller): Promise<Crl[]> {
  const startedAt = performance.now()
  const notices = new OperatorNotices()
  for (;;) {
    const { rebuilding, error, lists } = (await caller.page('listCrls', {})).body as Crls
    if (!rebuilding) return lists
    const waitedMs = performance.now() - startedAt
    if (waitedMs > WAIT_MS)
      throw new CommandError(`the CRL was not rebuilt in time: ${error ?? 'see the log of the service'}`)
    if (waitedMs > NOTICE_AFTER_MS) notices.waiting()
    if (error !== null) notices.obstacle(error)
    await sleep(LOOK_MS)
  }
}

/** Messages for the operator on standard error, each printed once. */
class OperatorNotices {
  #isWaitingPrinted = false
  #printedObstacle: string | undefined

  waiting(): void {
    if (this.#isWaitingPrinted) return
    this.#isWaitingPrinted = true
    const minutes = WAIT_MS / 60_000
    process.stderr.write(`waiting for the new CRL, up to ${minutes} minutes; the request stands when this is ended\n`)
  }

  obstacle(obstacle: string): void {
    if (obstacle === this.#printedObstacle) return
    this.#printedObstacle = obstacle
    process.stderr.write(`no CRL yet: ${obstacle}; the service goes on trying\n`)
    this.waiting()
  }
}
