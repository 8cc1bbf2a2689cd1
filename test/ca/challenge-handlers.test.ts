/** What publishes the responses to an upstream's challenges: scripts, files, modules. */

import assert from 'node:assert/strict'
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import {
  type ChallengeResponse,
  callbackDns,
  fileHttp,
  MODULE_METHODS,
  moduleHandler,
  requireHandlerModule,
} from '../../src/ca/acme-proxy/challenge-handler.ts'
import { WAIT_MS } from '../support/patience.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const RESPONSE: ChallengeResponse = {
  domain: 'a.test',
  token: '-token_1',
  keyAuthorization: '-token_1.thumb',
  recordName: '_acme-challenge.a.test',
  recordValue: 'digest',
}
const never = new AbortController().signal

describe('challenge handlers', () => {
  const folder = temporaryFolder()

  const inside = (name: string) => path.join(folder, name)
  const script = (name: string, text: string) => {
    writeFileSync(inside(name), `#!/bin/sh\n${text}\n`)
    chmodSync(inside(name), 0o755)
    return inside(name)
  }
  const scripts = (placeScript: string, more: { timeoutMs?: number; passedVariables?: string[] } = {}) =>
    callbackDns({
      placeScript,
      removeScript: placeScript,
      timeoutMs: WAIT_MS,
      concurrency: 1,
      propagationMs: 0,
      passedVariables: [],
      ...more,
    })

  test('a script gets its words as they are, no shell between, and no secret of the service', async () => {
    process.env['CHANCERY_TEST_SECRET'] = 'secret'
    process.env['CHANCERY_TEST_PASSED'] = 'passed'
    const file = script('words', `{ printf '%s\\n' "$@"; env; } > "${inside('words.out')}"`)
    const handler = scripts(file, { passedVariables: ['CHANCERY_TEST_PASSED'] })
    const domain = '$(touch x);`y` "z"'
    await handler.place({ ...RESPONSE, domain }, never)
    const out = readFileSync(inside('words.out'), 'utf8')
    assert.ok(out.startsWith(`${domain}\n_acme-challenge.a.test\ndigest\n`), out)
    assert.match(out, /^CHANCERY_TEST_PASSED=passed$/m)
    assert.match(out, /^CHANCERY_RECORD_VALUE=digest$/m)
    assert.doesNotMatch(out, /CHANCERY_TEST_SECRET/)
    await handler.remove({ ...RESPONSE, domain }, never)
    assert.ok(
      readFileSync(inside('words.out'), 'utf8').startsWith(`${domain}\n_acme-challenge.a.test\nPATH`.slice(0, 40)),
    )
  })

  test('a script that ends with an error is reported with the end of what it said', async () => {
    const handler = scripts(script('failing', `yes x | head -c 5000\necho 'no such zone' >&2\nexit 7`))
    await assert.rejects(handler.place(RESPONSE, never), (error: Error) => {
      assert.match(error.message, /failing ended with 7: .*no such zone$/)
      return error.message.length < 1_000
    })
    await assert.rejects(scripts(inside('absent')).place(RESPONSE, never), /absent cannot be started: ENOENT/)
  })

  test('a script that hangs is ended with its children', async () => {
    const pidFile = inside('child.pid')
    const handler = scripts(script('hanging', `sleep 600 & echo $! > "${pidFile}"\nwait`), { timeoutMs: 3_000 })
    await assert.rejects(handler.place(RESPONSE, never), /hanging did not end within 3 seconds/)
    const pid = Number(readFileSync(pidFile, 'utf8'))
    await until('the child has ended', () => !isRunning(pid))
  })

  test('the end of the service ends a script', async () => {
    const stopping = new AbortController()
    const handler = scripts(script('waiting', `: > "${inside('waiting.began')}"\nsleep 600`))
    const placed = handler.place(RESPONSE, stopping.signal)
    await until('the script runs', () => existsSync(inside('waiting.began')))
    stopping.abort(new Error('the service stops'))
    await assert.rejects(placed, /the service stops/)
  })

  test('file_http writes whole files, and removes what may not be there', async () => {
    const handler = fileHttp({ webroot: folder })
    const challenges = path.join(folder, '.well-known', 'acme-challenge')
    await handler.place(RESPONSE, never)
    await handler.place(RESPONSE, never)
    assert.equal(readFileSync(path.join(challenges, RESPONSE.token), 'utf8'), RESPONSE.keyAuthorization)
    assert.deepEqual(readdirSync(challenges), [RESPONSE.token])
    await handler.remove(RESPONSE, never)
    await handler.remove(RESPONSE, never)
    assert.deepEqual(readdirSync(challenges), [])
  })

  describe('ext:', () => {
    const moduleOf = (name: string, text: string, settings = {}) => {
      writeFileSync(inside(name), text)
      const url = pathToFileURL(inside(name)).href
      return { module: `./${name}`, exportName: 'Zone', url, settings, methods: MODULE_METHODS }
    }
    const limits = { propagationMs: 0, timeoutMs: WAIT_MS, concurrency: 1 }

    test('a module gets its settings and each response, in a thread of its own', async () => {
      const text = `
        import { appendFileSync } from 'node:fs'
        export class Zone {
          constructor(settings) { this.file = settings.file }
          onChallengePlace({ recordName, recordValue }) { appendFileSync(this.file, 'place ' + recordName + ' ' + recordValue + '\\n') }
          async onChallengeRemove({ token }) { appendFileSync(this.file, 'remove ' + token + '\\n') }
        }`
      const module = moduleOf('zone.mjs', text, { file: inside('zone.out') })
      await requireHandlerModule(module)
      const handler = moduleHandler({ module, ...limits }, () => undefined)
      await handler.place(RESPONSE, never)
      await handler.remove(RESPONSE, never)
      await handler.close()
      assert.equal(readFileSync(inside('zone.out'), 'utf8'), 'place _acme-challenge.a.test digest\nremove -token_1\n')
    })

    test('a module that throws fails the call with its reason', async () => {
      const text = `export class Zone { onChallengePlace() { throw new Error('no such zone') } onChallengeRemove() {} }`
      const handler = moduleHandler({ module: moduleOf('throwing.mjs', text), ...limits }, () => undefined)
      await assert.rejects(handler.place(RESPONSE, never), /failed: no such zone/)
      await handler.close()
    })

    test('a module without both methods, or with settings it refuses, is refused at the start', async () => {
      const half = moduleOf('half.mjs', 'export class Zone { onChallengePlace() {} }')
      await assert.rejects(
        requireHandlerModule(half),
        /half\.mjs#Zone needs the methods onChallengePlace and onChallengeRemove/,
      )
      const strict = moduleOf(
        'strict.mjs',
        `export class Zone { static validate() { throw new Error('zone is missing') } onChallengePlace() {} onChallengeRemove() {} }`,
      )
      await assert.rejects(requireHandlerModule(strict), /strict\.mjs#Zone is not usable: zone is missing/)
    })
  })
})

function isRunning(pid: number): boolean {
  try {
    // A zombie answers a signal, too.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
