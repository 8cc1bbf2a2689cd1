/** The files below deploy/, as systemd reads them. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { PIN_REFUSED_EXIT_CODE } from '../../signer/protocol/signer-errors.ts'
import { requireCommand } from '../support/requirements.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const DEPLOY = path.resolve(import.meta.dirname, '../../../deploy')
const read = (name: string) => readFileSync(path.join(DEPLOY, name), 'utf8')

/** Unit → the exposure that `systemd-analyze security` may find, in tenths: 0 none, 100 all. */
const UNITS = { 'chancery-signer.service': 10, 'chancery.service': 25 } as const

describe('the units', requireCommand('systemd-analyze'), () => {
  const folder = temporaryFolder()

  /** With programs that are here, since they are looked for. */
  const written = (name: string, text = read(`systemd/${name}`)) => {
    const file = path.join(folder, name)
    writeFileSync(file, text.replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`))
    return file
  }
  const signer = written('chancery-signer.service')
  const service = written('chancery.service')

  test('hold nothing that systemd does not know', () => {
    assert.deepEqual(analyze('verify', '--recursive-errors=no', signer, service), { status: 0, errors: '' })
  })

  test('with the drop-in for a token hold nothing that systemd does not know', () => {
    // Sections of one unit may stand in one file, as systemd joins them.
    const joined = `${read('systemd/chancery-signer.service')}\n${read('systemd/hsm.conf')}`
    const file = written('chancery-token.service', joined)
    assert.deepEqual(analyze('verify', '--recursive-errors=no', file), { status: 0, errors: '' })
  })

  test('with the commented parts of the drop-in hold nothing that systemd does not know', () => {
    const dropIn = read('systemd/hsm.conf').replaceAll(/^#(?=[A-Z]\w+=)/gm, '')
    assert.match(dropIn, /^Environment=SOFTHSM2_CONF=\//m)
    const file = written('chancery-other-token.service', `${read('systemd/chancery-signer.service')}\n${dropIn}`)
    assert.deepEqual(analyze('verify', '--recursive-errors=no', file), { status: 0, errors: '' })
  })

  for (const [name, tenths] of Object.entries(UNITS)) {
    test(`leave ${name} an exposure of at most ${tenths / 10}`, () => {
      const file = path.join(folder, name)
      const { status, errors } = analyze('security', '--offline=yes', `--threshold=${tenths}`, '--no-pager', file)
      assert.equal(status, 0, errors)
    })
  }
})

for (const name of Object.keys(UNITS))
  test(`${name} is started again however often it has ended`, () => {
    const [head = ''] = read(`systemd/${name}`).split('[Service]')
    assert.match(head, /^StartLimitIntervalSec=0$/m)
  })

test('the instructions apply our own files only, not those of the whole host', () => {
  const commands = [...read('README.md').matchAll(/systemd-(?:tmpfiles|sysusers)\b([^\n`]*)/g)]
  assert.ok(commands.length >= 3)
  for (const [command, rest] of commands)
    assert.match(rest ?? '', / (?:\/etc\/\w+\.d\/chancery|"\$PWD\/rights)\.conf"?$/, command)
})

test('a signer whose PIN was refused is not started again', () => {
  assert.match(
    read('systemd/chancery-signer.service'),
    new RegExp(`^RestartPreventExitStatus=${PIN_REFUSED_EXIT_CODE}$`, 'm'),
  )
})

function analyze(...args: string[]): { status: number | null; errors: string } {
  const { status, stderr, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' })
  // A container has no manager to ask for the units of the host.
  return { status, errors: status === 0 ? stderr.trim() : `${stderr}${stdout}` }
}
