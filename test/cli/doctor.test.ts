/** `chancery doctor` on the command line: areas, exit codes, and a host where nothing is. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { describe, test } from 'node:test'
import { runCommand } from '../support/run-command.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
const doctor = (...args: string[]) =>
  runCommand(process.execPath, [CLI, '-c', '/nowhere/config.yaml', 'doctor', ...args])

describe('chancery doctor', () => {
  test('says what is wrong with the configuration, and calls nothing else right', async () => {
    const { code, output } = await doctor()
    assert.equal(code, 1)
    assert.match(output, /^Configuration\n {2}FAIL {5}configuration\.valid: \/nowhere\/config\.yaml: .*\n {11}to do: /)
    assert.match(output, /unknown {2}mail\.server: cannot tell, because the configuration is not valid/)
    assert.match(output, /\n0 ok, 0 warnings, 2 failures, \d+ unknown\n$/)
  })

  test('looks at the areas that are named only', async () => {
    const { code, output } = await doctor('--only', 'mail,disk', '--only', 'crl')
    assert.equal(code, 0)
    assert.deepEqual(output.match(/^\w.*$/gm), [
      'Revocation lists',
      'Disks',
      'Mail',
      '0 ok, 0 warnings, 0 failures, 13 unknown',
    ])
  })

  test('knows its areas', async () => {
    const { code, output } = await doctor('--only', 'crls')
    assert.equal(code, 2)
    assert.match(output, /--only crls: is no area; there are configuration, files, /)
  })
})
