/** What a bundle throws names its sources in the log. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { sourcePositions } from '../../../src/ops/logging.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const folder = temporaryFolder()
// The runner has Node map positions itself; a service does not.
before(() => process.setSourceMapsEnabled(false))
after(() => process.setSourceMapsEnabled(true))

/** The stack of an error from a bundle of two sources. */
async function thrownStack(name: string): Promise<string> {
  writeFileSync(
    path.join(folder, `${name}-inner.ts`),
    `interface Unused { one: 1 }\nexport const fail = () => new Error('broken')\n`,
  )
  writeFileSync(path.join(folder, `${name}.ts`), `import { fail } from './${name}-inner'\nexport default fail()\n`)
  const outfile = path.join(folder, `${name}.js`)
  await build({
    entryPoints: [path.join(folder, `${name}.ts`)],
    outfile,
    bundle: true,
    format: 'esm',
    sourcemap: 'linked',
  })
  const { default: error } = (await import(pathToFileURL(outfile).href)) as { default: Error }
  return error.stack ?? ''
}

test('positions of a bundle become those of its sources; others stay', async () => {
  const lines = sourcePositions(await thrownStack('first')).split('\n')
  assert.equal(lines[0], 'Error: broken')
  assert.match(lines[1] ?? '', /at fail \(.*first-inner\.ts:2:27\)$/)
  assert.match(lines[2] ?? '', /at .*first\.ts:2:16\)?$/)
  assert.match(lines[3] ?? '', /node:internal/)
})

test('a second map is not read at once, so that errors cost little', async () => {
  assert.match(sourcePositions(await thrownStack('second')), /second\.js:\d+:\d+/)
})
