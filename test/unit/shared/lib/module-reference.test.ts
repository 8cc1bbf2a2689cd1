import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseModuleReference } from '../../../../src/shared/lib/module-reference.ts'
import { words } from '../../../support/words.ts'

const references: [text: string, module: string, exportName: string][] = [
  ['./path/file.js#Name', './path/file.js', 'Name'],
  ['../file.mjs', '../file.mjs', 'default'],
  ['/etc/chancery/my validators/a.cjs#$x1', '/etc/chancery/my validators/a.cjs', '$x1'],
  ['package', 'package', 'default'],
  ['package#Größe', 'package', 'Größe'],
  ['@scope/package/inside.js#Name', '@scope/package/inside.js', 'Name'],
  ['example_pki.validators.InventoryValidator', 'example_pki.validators.InventoryValidator', 'default'],
]
for (const [text, module, exportName] of references)
  test(`${text} names an export of a module`, () =>
    assert.deepEqual(parseModuleReference(text), { module, exportName }))

const others = ['', 'a b', ...words`#Name ./file ./file.ts#A ./file.js# ./file.js#a-b ./file.js#A#B @scope node:fs`]
for (const text of [...others, 'https://example.com/a.js', 'data:text/javascript,1', '-x', 'package#1'])
  test(`${JSON.stringify(text)} names no module`, () => assert.equal(parseModuleReference(text), undefined))
