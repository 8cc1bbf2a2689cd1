/** A filter of the administration is described once: its name stands in its resource and in the SQL of its list. */

import { describe, test } from 'node:test'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { openApiDocument } from '../../src/admin/openapi.ts'
import * as accounts from '../../src/admin/resources/accounts.ts'
import * as certificates from '../../src/admin/resources/certificates.ts'
import * as operation from '../../src/admin/resources/operation.ts'
import { filesBelow, isIn, textOf, withoutComments } from '../support/sources.ts'
import { assertOnlyListed } from './exceptions.ts'

const RESOURCES = 'src/admin/resources'
/** A table of conditions in SQL, one for each member. */
const SQL_TABLE = /\bConditions</

const tables = Object.entries({ ...accounts, ...certificates, ...operation })
const filterNames = tables.flatMap(([name, table]) => (name.endsWith('_FILTERS') ? Object.keys(table) : []))

/** Names of two words that no reply has: one word, or a member of a reply, stands in many places for good reasons. */
const { components, paths } = openApiDocument(ENDPOINTS, { version: '', baseUrl: '' })
const replies = JSON.stringify([components, paths], (member, value) => (member === 'requestBody' ? undefined : value))
const names = [...new Set(filterNames)].filter((name) => name.includes('_') && !replies.includes(`"${name}":`))

describe('the filters of a resource', () => {
  test(`such as ${names.slice(0, 3).join(', ')} stand in the resource and in the SQL of its list only`, () => {
    const mentions = new RegExp(`\\b(?:${names.join('|')})\\b`)
    const others = filesBelow('src').filter((file) => !isIn(file, RESOURCES) && !SQL_TABLE.test(textOf(file)))
    const breaches = others.flatMap((file) =>
      withoutComments(textOf(file))
        .split('\n')
        .filter((line) => mentions.test(line))
        .map((line) => ({ file, says: `${file} knows a filter: ${line.trim()}` })),
    )
    assertOnlyListed('resources', breaches)
  })
})
