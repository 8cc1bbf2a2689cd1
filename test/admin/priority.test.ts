/** What administrators cost is done at a lower priority than the work for ACME clients. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createAdministrator, signIn } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const LOGINS = 5
const MOST_ROUNDS = 3

describe('the priority of administrators', { skip: os.platform() !== 'linux' && 'Linux alone lowers a thread' }, () => {
  const { service } = administered(() => sharedService('admin'))

  /** Niceness and clock ticks of each thread (proc_pid_stat(5)). */
  function threads(): { nice: number; ticks: number }[] {
    const folder = `/proc/${service.process.pid}/task`
    return readdirSync(folder).flatMap((id) => {
      let stat: string
      try {
        stat = readFileSync(`${folder}/${id}/stat`, 'latin1')
      } catch {
        // A thread that has ended since.
        return []
      }
      const fields = stat
        .replace(/^.*\) /, '')
        .split(' ')
        .map(Number)
      return [{ nice: fields[16] as number, ticks: (fields[11] as number) + (fields[12] as number) }]
    })
  }
  const own = () => os.getPriority(service.process.pid)
  const isLowered = ({ nice }: { nice: number }) => nice === Math.min(19, own() + 15)
  const sum = (all: { ticks: number }[]) => all.reduce((total, { ticks }) => total + ticks, 0)
  function spent() {
    const all = threads()
    const low = sum(all.filter(isLowered))
    return { low, others: sum(all) - low }
  }
  /** Ticks that pass meanwhile, of the lowered threads and of the others, and the time. */
  async function during(work: () => Promise<unknown>) {
    const [before, startedAt] = [spent(), performance.now()]
    await work()
    const now = spent()
    return { low: now.low - before.low, others: now.others - before.others, ms: performance.now() - startedAt }
  }

  test('the admin thread and that of password hashes are lowered, and no other', async () => {
    // The thread of password hashes starts with the first login.
    await signIn(service.baseUrl, 'carol', await createAdministrator(service.database, 'carol'))
    await until('two are lowered', () => threads().filter(isLowered).length === 2)
    const all = threads()
    const others = all.filter(({ nice }) => nice === own())
    assert.deepEqual([all.filter(isLowered).length, others.length + 2], [2, all.length])
  })

  test('a login costs the lowered threads alone more than a little', async () => {
    const password = await createAdministrator(service.database, 'alice')
    const logins = async () => {
      for (let n = 0; n < LOGINS; n++) await signIn(service.baseUrl, 'alice', password)
    }
    // The others work of their own accord, too. A pause of the same length tells how much.
    const rounds: string[] = []
    for (let isShown = false; !isShown; ) {
      assert.ok(rounds.length < MOST_ROUNDS, rounds.join(', '))
      const busy = await during(logins)
      const pause = await during(() => sleep(busy.ms))
      isShown = busy.low > busy.others - pause.others
      rounds.push(`${busy.low} ticks, and of the others ${busy.others}, ${pause.others} without a login`)
    }
    assert.equal(threads().filter(isLowered).length, 2)
  })
})
