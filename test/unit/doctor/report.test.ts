import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { countsOf, exitCodeOf, jsonOf, textOf } from '../../../src/cli/host/doctor.ts'
import { localProgram } from '../../../src/cli/program.ts'
import { judgeFetch } from '../../../src/doctor/checks/crl.ts'
import { CHECKS, runChecks } from '../../../src/doctor/checks.ts'
import { type Check, requireAnswer, Sources } from '../../../src/doctor/sources.ts'
import { AREA_NAMES, CannotTell, failure, ok, warning } from '../../../src/doctor/verdict.ts'
import { each } from '../../support/each.ts'

const sources = new Sources({
  configFile: '/nowhere/config.yaml',
  loaded: { ok: false, errors: [{ path: '', message: 'cannot be read: no such file' }] },
  signerConfigFile: undefined,
  target: undefined,
  testSign: false,
  version: '1.0.0',
  inspectFiles: () => ({ errors: [], warnings: [] }),
})
const check = (id: Check['id'], look: Check['look']): Check => ({ id, title: `title of ${id}`, look })
const quiet = () => undefined

describe('the report', () => {
  const checks = [
    check('mail.server', () => ok('it answers')),
    check('crl.fresh', () => [
      warning('a list\nis \u001b[31mold', 'build it'),
      failure('another has ended', 'build that'),
    ]),
    check('disk.log', () => undefined),
    check('tls.chain', () => {
      throw new CannotTell('nothing answers', 'start it')
    }),
  ]

  test('groups findings by area, one a line, and counts them', async () => {
    const findings = await runChecks(checks, sources, quiet)
    assert.equal(
      textOf(findings),
      [
        'Certificate of the service',
        '  unknown  tls.chain: cannot tell, because nothing answers',
        '           to do: start it',
        '',
        'Revocation lists',
        '  warning  crl.fresh: a list; is \\u001b[31mold',
        '           to do: build it',
        '  FAIL     crl.fresh: another has ended',
        '           to do: build that',
        '',
        'Mail',
        '  ok       mail.server: it answers',
        '',
        '1 ok, 1 warning, 1 failure, 1 unknown',
      ].join('\n'),
    )
  })

  test('what did not answer is one failure; what else asked it is one line of what was not looked at', async () => {
    const nowhere = 'http://nowhere.invalid/'
    const fetched = async () => judgeFetch(nowhere, await sources.fetch(nowhere))
    const findings = await runChecks(
      [
        check('proxy.head', async () => ok(`${requireAnswer(await sources.fetch(nowhere), 'it').status}`)),
        check('proxy.link', async () => ok(`${requireAnswer(await sources.fetch(nowhere), 'it').status}`)),
        check('proxy.reachable', fetched),
        check('crl.plain-http', fetched),
      ],
      sources,
      quiet,
    )
    const report = textOf(findings)
    assert.match(report, /^ {2}unknown {2}proxy\.head, proxy\.link: not looked at, because of proxy\.reachable$/m)
    assert.match(
      report,
      /^ {2}FAIL {5}proxy\.reachable: .*its name does not resolve here\n.*to do: let DNS .* know nowhere\.invalid/m,
    )
    assert.match(report, /^ {2}unknown {2}crl\.plain-http: not looked at, because of proxy\.reachable$/m)
    assert.match(report, /^0 ok, 0 warnings, 1 failure, 3 unknown$/m)
  })

  test('is JSON with the members that the manual shows', async () => {
    const [first] = checks
    const findings = await runChecks([first!], sources, quiet)
    assert.deepEqual(jsonOf(findings, new Date(0)), {
      version: 1,
      at: '1970-01-01T00:00:00.000Z',
      counts: { ok: 1, warning: 0, failure: 0, unknown: 0 },
      findings: [
        {
          id: 'mail.server',
          area: 'mail',
          title: 'title of mail.server',
          result: 'ok',
          says: 'it answers',
          mend: null,
        },
      ],
    })
  })

  test('ends with 1 for a failure, and for a warning where that counts', () => {
    const counts = (failures: number, warnings: number) => ({ ok: 1, unknown: 1, failure: failures, warning: warnings })
    assert.equal(exitCodeOf(counts(0, 3), false), 0)
    assert.equal(exitCodeOf(counts(0, 3), true), 1)
    assert.equal(exitCodeOf(counts(1, 0), false), 1)
  })
})

describe('checks', () => {
  test('that hang or fail say so, and stop no other', async () => {
    const findings = await runChecks(
      [
        check('mail.server', () => new Promise(() => undefined)),
        check('tls.name', () => {
          throw new TypeError('a fault of the doctor')
        }),
        check('crl.size', () => ok('short')),
      ],
      sources,
      quiet,
      50,
    )
    assert.deepEqual(each(findings, 'result'), ['unknown', 'unknown', 'ok'])
  })

  test('call nothing right that they have not seen: without a configuration only its file is judged', async () => {
    const findings = await runChecks(CHECKS, sources, quiet)
    assert.deepEqual(countsOf(findings).ok, 0)
    const ids = findings.filter(({ result }) => result !== 'unknown').map(({ id }) => id)
    assert.deepEqual(ids, ['configuration.valid', 'files.configuration'])
  })

  test('have ids of their own, in an area', () => {
    const ids = CHECKS.map(({ id }) => id)
    assert.equal(new Set(ids).size, ids.length)
    for (const id of ids) assert.ok((AREA_NAMES as string[]).includes(id.split('.')[0]!), id)
  })

  test('name only commands that there are', async () => {
    const { commands } = await localProgram(['tokens', 'create'])
    const known = commands.map(({ usage }) => usage.replace(/ <.*/, ''))
    const folder = new URL('../../../../src/doctor/checks/', import.meta.url)
    const texts = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'))
    const named = texts.flatMap((text) => [...text.matchAll(/chancery (?:-c FILE|--server URL) ([a-z][a-z -]*)/g)])
    const words = named.map(([, found = '']) => found)
    assert.ok(words.length > 10)
    const unknown = words.filter((found) => !known.some((usage) => `${found} `.startsWith(`${usage} `)))
    assert.deepEqual(unknown, [])
  })
})
