/**
 * A page knows no number of the service: its bounds, thresholds and spans are in replies, as `behind`, `more` or `days`.
 * A new number of a page needs a reason below, which does not speak of the service.
 */

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { transformSync } from 'esbuild'

/** Seen from the compiled file. */
const PAGES = path.resolve(import.meta.dirname, '../../../../src/console/pages')

/** The numbers of two digits or more that belong to a page, each with its reason. */
const OWN: Readonly<Record<string, string>> = {
  'accounts.tsx 10': 'failures that are shown at first',
  'accounts.tsx 12': 'digits at the end of an id, which tell it from others',
  'audit.tsx 1000': 'milliseconds between two questions',
  'blocked-keys.tsx 10': 'certificates that the page asks for',
  'bulk-revocations.tsx 10': 'characters of a day in a time as text',
  'bulk-revocations.tsx 1000': 'milliseconds between two questions',
  'certificate.tsx 404': 'a status of HTTP',
  'certificates.tsx 16': 'digits of a serial number that a row shows whole',
  'csr-profile-editor.tsx 100000': 'bytes of a dropped file that a tab reads',
  'csr-profiles.tsx 24': 'lines of a field',
  'events.tsx 10000': 'milliseconds between two questions',
  'first-steps.tsx 80': 'the port of HTTP',
  'onboarding.tsx 80': 'characters of the name of a file',
  'incident.tsx 200': 'a status of HTTP',
  'incident.tsx 1000': 'milliseconds between two questions',
  'incident.tsx 200000': 'certificates that fit into the memory of a tab',
  'issuers.tsx 10000': 'milliseconds between two questions',
  'onboarding.tsx 10': 'characters of a day in a time as text',
  'onboarding.tsx 30': 'days that the form proposes',
  'onboarding.tsx 40': 'characters of a proposed name',
  'overview-charts.tsx 10': 'characters of a day in a time as text',
  'overview-charts.tsx 60': 'days that the page asks for',
  'overview-charts.tsx 1000': 'milliseconds of a second',
  'overview-charts.tsx 60000': 'milliseconds between two questions',
  'overview.tsx 20': 'certificates that the page asks for',
  'profile-fields.ts 48': 'a tag of ASN.1',
  'profile-fields.ts 8192': 'arguments of a call that a browser takes',
}

/** Bounds of the service that no reply says yet. This list may only shrink. */
const OF_THE_SERVICE = ['profile-fields.ts 65536']

/** The numbers of a file, outside of its texts: what esbuild makes of it has the texts of elements as strings. */
function numbersIn(file: string): number[] {
  const source = readFileSync(path.join(PAGES, file), 'utf8')
  const { code } = transformSync(source, { loader: 'tsx', jsx: 'automatic' })
  const bare = code
    .replaceAll(/\$\{/g, '` + `')
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, '""')
    .replaceAll(/\/(?![/*\s])(?:[^/\\\n]|\\.)+\/[a-z]*/g, '""')
  return [...bare.matchAll(/(?<![\w.$])\d[\d_]*(?:\.\d+)?(?:e\d+)?\b/g)].map(([number]) =>
    Number(number.replaceAll('_', '')),
  )
}

test('a page has no number of the service', () => {
  const found = readdirSync(PAGES).flatMap((file) =>
    [...new Set(numbersIn(file))].filter((number) => number >= 10).map((number) => `${file} ${number}`),
  )
  const explained = [...Object.keys(OWN), ...OF_THE_SERVICE]
  assert.deepEqual(
    found.filter((one) => !explained.includes(one)),
    [],
    'the reply says it, or the list says why not',
  )
  assert.deepEqual(
    explained.filter((one) => !found.includes(one)),
    [],
    'no longer in its page',
  )
})
