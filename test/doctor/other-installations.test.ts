/** `chancery doctor` where there is no proxy, no signer of its own, and little else. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { each } from '../support/each.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import type { Finding } from './stand.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')

describe('chancery doctor, on a service that starts its signer itself', () => {
  let service: TestService
  before(async () => {
    service = await startTestService({
      fronts: 1,
      config: { challenges: { http01: { blocked_networks: ['127.0.0.0/8'] } } },
    })
  })
  after(() => service?.dispose())

  test('finds what a test does that an installation must not, and nothing else', async () => {
    const config = path.join(service.folder, 'config.yaml')
    const { output } = await runCommand(process.execPath, [CLI, '-c', config, 'doctor', '--json'])
    const { findings } = JSON.parse(output) as { findings: Finding[] }
    const isBad = ({ result }: Finding) => result === 'failure' || result === 'warning'
    const asRoot = process.getuid?.() === 0 ? ['service.user'] : []
    assert.deepEqual(each(findings.filter(isBad), 'id'), ['configuration.intended', ...asRoot, 'database.durable'])
  })
})
