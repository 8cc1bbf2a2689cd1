/** SIGUSR1 and SIGUSR2 at the service (docs/operations.md, Signals): Node would open a debugger, or end. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertPortFree } from '../../src/http/port-check.ts'
import { freePort } from '../support/free-port.ts'
import { startTestService } from '../support/service.ts'

test('they open no debugger and end nothing; a log line names each and what to send instead', async () => {
  const port = await freePort()
  // Of this file alone, and of what it starts.
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --inspect-port=${port}`
  const service = await startTestService()
  try {
    for (const signal of ['SIGUSR1', 'SIGUSR2'] as const) {
      service.process.kill(signal)
      const sentence = `${signal} is ignored; SIGHUP has the configuration read again, SIGTERM stops`
      const { level } = await service.waitForLog(sentence)
      assert.equal(level, 'warn')
    }
    await assertPortFree('127.0.0.1', port)
    assert.equal((await fetch(service.directoryUrl)).status, 200)
    assert.equal(await service.stop(), 0)
  } finally {
    await service.dispose()
  }
})
