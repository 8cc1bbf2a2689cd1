/** What administrators cost is done at a lower priority than the work for ACME clients. */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import os from 'node:os'
import { after, before, describe, test } from 'node:test'
import { adminConfig, createAdministrator, signIn } from '../support/admin.ts'
import { startTestService, type TestService } from '../support/service.ts'

const LOGINS = 10

describe('the priority of administrators', { skip: os.platform() !== 'linux' && 'Linux alone lowers a thread' }, () => {
  let service: TestService
  before(async () => {
    service = await startTestService({ config: adminConfig() })
  })
  after(() => service.dispose())

  /** Niceness and clock ticks of each thread (proc_pid_stat(5)). */
  function threads(): { nice: number; ticks: number }[] {
    const folder = `/proc/${service.process.pid}/task`
    return readdirSync(folder).map((id) => {
      const fields = readFileSync(`${folder}/${id}/stat`, 'latin1')
        .replace(/^.*\) /, '')
        .split(' ')
        .map(Number)
      return { nice: fields[16] as number, ticks: (fields[11] as number) + (fields[12] as number) }
    })
  }
  const own = () => os.getPriority(service.process.pid)
  const lowered = () => threads().filter(({ nice }) => nice === Math.min(19, own() + 15))
  const sum = (all: { ticks: number }[]) => all.reduce((total, { ticks }) => total + ticks, 0)

  test('the admin thread and that of password hashes are lowered, and no other', () => {
    assert.equal(lowered().length, 2)
    const others = threads().filter(({ nice }) => nice === own())
    assert.equal(others.length + 2, threads().length)
  })

  test('a login costs the lowered threads alone more than a little', async () => {
    const password = await createAdministrator(service.database, 'alice')
    const before = [sum(lowered()), sum(threads())] as const
    for (let n = 0; n < LOGINS; n++) await signIn(service.baseUrl, 'alice', password)
    const [low, all] = [sum(lowered()) - before[0], sum(threads()) - before[1]]
    assert.ok(low > all / 2, `${low} of ${all} ticks`)
    assert.equal(lowered().length, 2)
  })
})
