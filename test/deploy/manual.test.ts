/** Manual pages and completions say what the command line knows. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { writeManual } from '../../deploy/build/manual.ts'
import { SIGNER_PROGRAM } from '../../signer/program.ts'
import { localProgram } from '../../src/cli/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = temporaryFolder()
const file = (name: string) => path.join(folder, name)

before(() => writeManual(folder))

function output(program: string, ...words: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    encoding: 'utf8',
    env: { ...process.env, MANWIDTH: '400', MAN_KEEP_FORMATTING: '', HOME: folder },
  })
  assert.equal(status, 0, `${program} ${words.join(' ')}: ${error?.message ?? stderr}`)
  assert.equal(stderr, '')
  return stdout
}

describe('manual pages', () => {
  for (const name of ['chancery', 'chancery-signer'])
    test(`${name}(1) has every command and option, and man has no warning`, async () => {
      const page = output('man', '--warnings', '--no-hyphenation', '--local-file', file(`man/man1/${name}.1`))
      const { commands } = name === 'chancery' ? await localProgram([]) : SIGNER_PROGRAM
      const flat = page.replaceAll(/\s+/g, ' ')
      for (const { usage, options = {} } of commands) {
        assert.ok(flat.includes(usage), usage)
        for (const [option, { sentence }] of Object.entries(options))
          assert.ok(
            flat.includes(`--${option} `) && flat.includes(sentence.replaceAll(/\s+/g, ' ')),
            `${usage} ${option}`,
          )
      }
    })
})

describe('completions', () => {
  /** What bash offers for the last of these words. */
  function inBash(...typed: string[]): string[] {
    const program = typed[0]!
    const script = `source ${file(`bash-completion/completions/${program}`)}
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _${program.replace('-', '_')}; printf '%s\\n' "\${COMPREPLY[@]}"`
    return output('bash', '-c', script, 'bash', ...typed)
      .split('\n')
      .filter((line) => line !== '')
  }

  test('bash offers the words of a command, then its options', () => {
    assert.ok(inBash('chancery', 'ord').includes('orders'))
    assert.deepEqual(inBash('chancery', 'db', 'mi'), ['migrate'])
    assert.deepEqual(inBash('chancery', '-c', 'config.yaml', 'db', 'migrate', '--pl'), ['--plan'])
    assert.deepEqual(inBash('chancery-signer', 'audit', ''), ['verify', 'tail', 'export'])
  })

  test('bash offers files where an option takes a value', () => {
    assert.deepEqual(inBash('chancery', '-c', ''), [])
  })

  test('fish offers the same', () => {
    const script = `source ${file('fish/vendor_completions.d/chancery.fish')}; complete -C`
    assert.match(output('fish', '--no-config', '-c', `${script} 'chancery db mi'`), /^migrate\t/)
    assert.match(
      output('fish', '--no-config', '-c', `${script} 'chancery -c config.yaml db migrate --pl'`),
      /^--plan\t/,
    )
  })

  for (const name of ['chancery', 'chancery-signer'])
    test(`zsh can read those of ${name}`, () => {
      const completion = file(`zsh/vendor-completions/_${name}`)
      assert.equal(readFileSync(completion, 'utf8').split('\n')[0], `#compdef ${name}`)
      output('zsh', '-n', completion)
    })
})
