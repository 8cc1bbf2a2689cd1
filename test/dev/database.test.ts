import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import pg from 'pg'
import { testDatabase } from '../support/database.ts'

describe('test databases', () => {
  const opened: Promise<{ drop(): Promise<void> }>[] = []
  const open = () => {
    const database = testDatabase()
    opened.push(database)
    return database
  }
  after(async () => {
    for (const database of opened) await (await database).drop()
  })

  test('two are apart from each other, also when they are made at once', async () => {
    const [one, other] = await Promise.all([open(), open()])
    const client = new pg.Client(one.connection)
    await client.connect()
    await client.query('CREATE TABLE only_here (id int)')
    await client.end()
    const second = new pg.Client(other.connection)
    await second.connect()
    await assert.rejects(second.query('SELECT id FROM only_here'), /does not exist/)
    await second.end()
  })
})
