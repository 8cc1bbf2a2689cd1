/** README.md claims no more than the pages that it leads to. */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import type { Figures } from '../../bench/report/figures.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const read = (name: string) => readFileSync(path.join(ROOT, name), 'utf8')
const readme = read('README.md')

/** Of a page, by title: what is below it up to the next one. */
const sectionsOf = (page: string) =>
  new Map(
    read(page)
      .split(/^## /m)
      .slice(1)
      .map((section) => [section.slice(0, section.indexOf('\n')), section.slice(section.indexOf('\n'))] as const),
  )
/** The names of "a, b and c", as titles of a page begin. */
const namesIn = (list: string) => list.split(/, | and | or /)
const called = (sections: Map<string, string>, name: string) =>
  [...sections].find(([title]) => title.split(/, | and /).includes(name))?.[1]

describe('the first page', () => {
  test('names as working only clients that a test runs', () => {
    const clients = sectionsOf('docs/clients.md')
    const [, list = ''] = /Unchanged (.*) get certificates from it in tests/.exec(readme) ?? []
    assert.ok(namesIn(list).length > 3, list)
    for (const name of namesIn(list)) assert.match(called(clients, name) ?? '', /^\s*tried: /, name)
  })

  test('says of those that have no mark of a test nothing else', () => {
    const clients = [...sectionsOf('docs/clients.md')].filter(([, text]) => /^\s*(?:not run|tried by hand)/.test(text))
    assert.ok(clients.length > 5)
    // The first page has a row for containers, too.
    const titles = clients.map(([title]) => (title === 'Kubernetes' ? 'cert-manager' : title))
    for (const title of titles) assert.ok(!readme.includes(title), title)
  })

  test('has clients go on renewing only where accounts come over', () => {
    const imports = sectionsOf('docs/operations/import.md')
    const [, list = ''] = /^\| come from (.*) \| .* clients go on renewing \|$/m.exec(readme) ?? []
    for (const name of namesIn(list))
      assert.match(called(imports, name) ?? '', /^Tried with accounts [\s\S]*?renewed/m, name)
    const [, others = ''] = /^\| come from (.*) \| .* clients register again \|$/m.exec(readme) ?? []
    for (const name of namesIn(others)) assert.doesNotMatch(called(imports, name) ?? '', /with accounts/, name)
  })

  test('has figures of this version, and none of an older one', () => {
    const { release, commit } = JSON.parse(read('docs/benchmarks.json')) as Figures
    assert.equal(release, JSON.parse(read('package.json')).version)
    assert.match(commit ?? '', /^[0-9a-f]{7,}$/, 'measured with changes that no commit has')
  })

  test('has the loss of the page of fail-overs', () => {
    const [, certificates, revocations] = /missed (\d+) certificates and (\d+) revocations/.exec(readme) ?? []
    assert.match(
      read('docs/operations/failover.md'),
      new RegExp(`^${certificates} certificates were signed and ${revocations} revoked`, 'm'),
    )
  })
})
