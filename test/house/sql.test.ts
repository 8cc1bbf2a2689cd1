/** SQL stands with the house that alone uses it; the store has what several houses share. */

import { describe, test } from 'node:test'
import { filesBelow, importsBelow, isIn, isRelative, targetOf } from '../support/sources.ts'
import { assertOnlyListed } from './exceptions.ts'

/** They keep no SQL: use cases, protocol, and the wiring that hands statements to both. */
const SERVED_BY_STORE = ['src/services', 'src/acme', 'src/main']

describe('SQL', () => {
  const importersOf = new Map<string, string[]>()
  for (const one of importsBelow('src').filter(isRelative))
    importersOf.set(targetOf(one), [...(importersOf.get(targetOf(one)) ?? []), one.file])

  const houseOf = (file: string) => file.split('/').slice(0, 2).join('/')
  /** Houses that use a file of the store, also by way of other files of the store. */
  const housesOf = (file: string, seen = new Set([file])): Set<string> => {
    const houses = new Set<string>()
    for (const importer of importersOf.get(file) ?? []) {
      if (!isIn(importer, 'src/store')) houses.add(houseOf(importer))
      else if (!seen.has(importer)) for (const house of housesOf(importer, seen.add(importer))) houses.add(house)
    }
    return houses
  }

  test('of the store is used by two houses, or by one that keeps no SQL', () => {
    const ofOneHouse = filesBelow('src/store')
      // Migrations are a tool by themselves.
      .filter((file) => !isIn(file, 'src/store/schema'))
      .flatMap((file) => {
        const houses = [...housesOf(file)]
        const isShared = houses.length > 1 || houses.some((house) => SERVED_BY_STORE.includes(house))
        return isShared ? [] : [{ file, says: `${file}: only ${houses.join()} uses it, so it stands there` }]
      })
    assertOnlyListed('sql-of-one-house', ofOneHouse)
  })
})
