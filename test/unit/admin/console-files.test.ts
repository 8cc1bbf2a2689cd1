/** The files of the console in memory. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { ConsoleFiles } from '../../../src/admin/console-files.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { words } from '../../support/words.ts'

const folder = temporaryFolder()
writeFileSync(path.join(folder, 'index.html'), 'a page')
writeFileSync(path.join(folder, 'index.html.gz'), 'a packed page')
writeFileSync(path.join(folder, '.env'), 'a secret')

const answer = (name: string, acceptEncoding?: string) =>
  new ConsoleFiles(folder).answer({ method: 'GET', path: name, acceptEncoding })

for (const coding of ['gzip', undefined])
  test(`a reply with ${coding ?? 'no coding'} crosses threads without a copy: who takes it slowly holds no memory`, () => {
    const sent = answer('/console/', coding)?.octets
    const received = structuredClone(sent)
    assert.ok(sent && received)
    received[0] = 0x21
    assert.equal(sent[0], 0x21)
  })

test('only the files of the console are found, by their own names', () => {
  for (const name of words`/.env /../index.html //index.html /index.html.gz index.html`.map((end) => `/console${end}`))
    assert.equal(answer(name), undefined, name)
  assert.equal(answer('/console/index.html')?.status, 200)
  assert.equal(answer('/console')?.status, 308)
})

test('the page says which installation it is, with the icon in its colour, and a name cannot become markup', () => {
  writeFileSync(path.join(folder, 'icon.ABCDEFGH.svg'), 'an icon')
  writeFileSync(path.join(folder, 'icon-red.IJKLMNOP.svg'), 'a red icon')
  writeFileSync(path.join(folder, 'index.html'), '<html lang="en"><link href="icon.ABCDEFGH.svg">')
  const files = new ConsoleFiles(folder, { name: '"><script>$&', color: 'red' })
  const { octets } = files.answer({ method: 'GET', path: '/console/', acceptEncoding: 'gzip' }) ?? {}
  assert.equal(
    Buffer.from(octets ?? []).toString(),
    '<html data-environment="&#34;&#62;&#60;script&#62;$&#38;" data-color="red" lang="en"><link href="icon-red.IJKLMNOP.svg">',
  )
})
