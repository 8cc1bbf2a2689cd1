/** SIGUSR1 and SIGUSR2 at the service (docs/operations/deploy.md): Node would open a debugger, or end. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { assertPortFree } from '../../src/http/start-checks.ts'
import { VERSION } from '../../src/shared/lib/program-files.ts'
import { freePort } from '../support/free-port.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService } from '../support/service.ts'

test('SIGUSR1 and SIGUSR2 open no debugger and end nothing, and a log line says what to send instead', async () => {
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

/**
 * Runs in the process under test before anything of ours: both signals come as soon as somebody listens for them. It stays until they have
 * been seen, because Node.js 24 loads all modules and ends without looking at what has come.
 */
const SIGNALS_AT_ONCE = `
  import { createRequire } from 'node:module'
  const { cache } = createRequire(process.execPath)
  process.on('newListener', (event) => {
    if (event !== 'SIGUSR2') return
    process.stderr.write(Object.keys(cache).length + ' packages loaded\\n')
    queueMicrotask(() => ['SIGUSR1', 'SIGUSR2'].forEach((signal) => process.kill(process.pid, signal)))
    setTimeout(() => {}, 500)
  })`

// To load the modules is most of a start: more than a second on a slow machine.
test('SIGUSR1 and SIGUSR2 do nothing while the modules are being loaded', async () => {
  const port = await freePort()
  const cli = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
  const preload = `data:text/javascript,${encodeURIComponent(SIGNALS_AT_ONCE)}`
  const output = await mustRun(process.execPath, [`--inspect-port=${port}`, '--import', preload, cli, '--version'])
  assert.deepEqual(output.trim().split('\n').toSorted(), [
    '0 packages loaded',
    `chancery, ${VERSION}`,
    'chancery: SIGUSR1 is ignored; SIGHUP has the configuration read again, SIGTERM stops',
    'chancery: SIGUSR2 is ignored; SIGHUP has the configuration read again, SIGTERM stops',
  ])
})
