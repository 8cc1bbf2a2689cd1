/** What the environment of a process may not undo. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { fileLimitWarning } from '../../../../src/http/start-checks.ts'
import { unsafeEnvironment } from '../../../../src/shared/lib/environment.ts'

const REFUSED: readonly (readonly [env: NodeJS.ProcessEnv, sentence: RegExp])[] = [
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, /takes any certificate of database, mail server and CA; unset it/],
  [{ NODE_OPTIONS: '--max-old-space-size=4096 --inspect=0.0.0.0:9229' }, /opens the process.* \(--inspect\); unset it/],
  [{ NODE_OPTIONS: '--inspect-brk' }, /to a debugger/],
  [{ NODE_OPTIONS: '--insecure-http-parser' }, /in two ways/],
  [{ NODE_OPTIONS: '--tls-min-v1.0' }, /TLS 1\.0/],
  // Node.js takes an underscore for a hyphen.
  [{ NODE_OPTIONS: '--tls_min_v1.0' }, /TLS 1\.0.* \(--tls-min-v1\.0\)/],
  // Node.js drops quotes, and a backslash within them.
  [{ NODE_OPTIONS: '--tls-min-v"1.0"' }, /TLS 1\.0/],
  [{ NODE_OPTIONS: '"--insp\\ect"' }, /to a debugger/],
  [{ NODE_OPTIONS: '--tls-keylog=/tmp/keys' }, /keys of connections/],
  [{ NODE_OPTIONS: '--security-revert=CVE-2023-46809' }, /takes a mend/],
]
const TAKEN: readonly NodeJS.ProcessEnv[] = [
  {},
  { NODE_TLS_REJECT_UNAUTHORIZED: '1', NODE_EXTRA_CA_CERTS: '/etc/ssl/own.pem' },
  { NODE_OPTIONS: '--max-old-space-size=4096 --inspect-port=9300 --enable-source-maps' },
]

const MODULE = new URL('../../../../src/shared/lib/environment.js', import.meta.url).href
/** What a process of its own says, since Node.js reads NODE_DEBUG at its start. */
function saidOf(NODE_DEBUG: string): string {
  const program = `console.log((await import('${MODULE}')).unsafeEnvironment(process.env) ?? 'taken')`
  const env = { ...process.env, NODE_DEBUG }
  return spawnSync(process.execPath, ['--input-type=module', '-e', program], { env, encoding: 'utf8' }).stdout
}

describe('the environment of a process', () => {
  for (const [env, sentence] of REFUSED)
    test(`${JSON.stringify(env)} is refused by name`, () => assert.match(unsafeEnvironment(env) ?? '', sentence))

  for (const env of TAKEN)
    test(`${JSON.stringify(env)} is taken`, () => assert.equal(unsafeEnvironment(env), undefined))

  test('with NODE_DEBUG is refused where Node.js shows connections by it, and taken elsewhere', () => {
    for (const text of ['fs,http', 'HTTP2', 'ht*', 'un*', '**', 'x,t*', 'fetch'])
      assert.match(saidOf(text), /passwords and tokens/, text)
    for (const text of ['timer', 'fs, http', 'stream,module*']) assert.equal(saidOf(text), 'taken\n', text)
  })

  test('that allows fewer files than the configuration allows connections is warned of', () => {
    const limits = (files: string) =>
      `Limit Soft Limit Hard Limit Units\nMax open files            ${files}   524288   files\n`
    assert.match(fileLimitWarning(8192, limits('1024')) ?? '', /may open 1024 files.*max_connections alone is 8192/)
    assert.equal(fileLimitWarning(8192, limits('65536')), undefined)
    assert.equal(fileLimitWarning(8192, limits('unlimited')), undefined)
  })
})
