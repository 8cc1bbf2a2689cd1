/** kill -9 of a round of the archive at each step: no certificate is nowhere, and the next round ends with files that verify. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { describe, test } from 'node:test'
import { findArchived, verifyArchive } from '../../src/services/archive/archive-reader.ts'
import { aCertificate, anAccount, useStores } from '../store/support.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const DAY_MS = 86_400_000
const STEPS = [
  'before the file has its name',
  'before the manifest names it',
  'within the line of the manifest',
  'before rows are removed',
  'between pages of rows',
]

describe('kill -9 of a round of the archive', () => {
  const store = useStores()

  for (const step of STEPS)
    test(`${step}: nothing is lost, and the next round goes on`, async () => {
      const folder = temporaryFolder()
      const { requester } = await anAccount(store)
      const times = { notBefore: new Date(Date.now() - 130 * DAY_MS), notAfter: new Date(Date.now() - 40 * DAY_MS) }
      const serials: string[] = []
      for (const _ of [1, 2, 3]) {
        const { intent } = await aCertificate(store, requester, { issued: times })
        serials.push(intent.serialNumber.toString('hex').replace(/^(?:00)+/, ''))
      }
      const round = (...at: string[]) =>
        spawnSync(
          process.execPath,
          [path.join(import.meta.dirname, 'archive-round.js'), JSON.stringify(store.settings), folder, ...at],
          {
            encoding: 'utf8',
          },
        )
      const stored = async () =>
        (await store.sql<{ serial: string }>("SELECT encode(serial_number, 'hex') AS serial FROM certificates")).map(
          ({ serial }) => serial,
        )
      const isArchived = async (serial: string) => (await findArchived(folder, serial)).certificate !== undefined

      assert.equal(round(step).signal, 'SIGKILL')
      const left = await stored()
      for (const serial of serials)
        assert.ok(left.includes(serial) || (await isArchived(serial)), `${serial} is nowhere`)

      const { status, stderr } = round()
      assert.equal(status, 0, stderr)
      assert.deepEqual(await stored(), [])
      const { faults, unnamed } = await verifyArchive(folder)
      assert.deepEqual({ faults, unnamed }, { faults: [], unnamed: [] })
      for (const serial of serials) assert.ok(await isArchived(serial), `${serial} is in a file`)
    })
})
