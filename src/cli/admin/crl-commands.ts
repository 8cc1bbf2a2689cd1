/** `chancery crl rebuild`: asks the running service for new lists, and waits for them. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Output } from '../../admin/client.ts'
import { crlName } from '../../domain/crl-scope.ts'
import { CommandError } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand } from './admin-command.ts'

/** A list of millions of entries takes a minute, and a build that is running ends first. */
const WAIT_MS = 300_000
const LOOK_MS = 250
/** Short lists are ready before this, so no message is needed. */
const NOTICE_AFTER_MS = 2_000

export const CRL_REBUILD = adminCommand({
  usage: 'crl rebuild',
  about: 'Have a new CRL built and wait until it is published (needs crl.enabled); --json prints a line for each list',
  async run(caller, { json }) {
    await caller.call('rebuildCrl', { body: { wait_seconds: 0 } })
    for (const { issuer, shard, shards, number, entries, bytes, this_update, next_update } of await newLists(caller)) {
      const crl = crlName(issuer, { shard, shards })
      if (json) console.log(JSON.stringify({ crl, number, entries, bytes, this_update, next_update }))
      else
        console.log(
          `CRL ${crl}: number ${number}, ${entries} entries, ${bytes} bytes\n  from ${this_update} to ${next_update}`,
        )
    }
    return 0
  },
})

async function newLists(caller: AdminCaller): Promise<Output<'listCrls'>['lists']> {
  const startedAt = performance.now()
  const say = onceEach()
  for (;;) {
    const { rebuilding, error, lists } = await caller.call('listCrls', {})
    if (!rebuilding) return lists
    const waitedMs = performance.now() - startedAt
    if (waitedMs > WAIT_MS)
      throw new CommandError(`the CRL was not rebuilt in time: ${error ?? 'see the log of the service'}`)
    if (error !== null) say(`no CRL yet: ${error}; the service tries again`)
    if (error !== null || waitedMs > NOTICE_AFTER_MS)
      say(`waiting up to ${WAIT_MS / 60_000} minutes for the new CRL; the request stays when this command ends`)
    await sleep(LOOK_MS)
  }
}

/** Prints messages for the operator on standard error, each once. */
function onceEach(): (message: string) => void {
  const said = new Set<string>()
  return (message) => {
    if (!said.has(message)) process.stderr.write(`${message}\n`)
    said.add(message)
  }
}
