/**
 * One round of the archive as a process, which ends with SIGKILL at a step: `node archive-round.js SETTINGS FOLDER [STEP]`. It wraps
 * what the archive calls of Node and of its store.
 */

import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { openDatabase } from '../../src/store/database.ts'

const [settings = '', folder = '', step] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')
const dieAt = (name: string) => name === step && die()

const { rename, open } = files
files.rename = async (from, to) => {
  dieAt('before the file has its name')
  await rename(from, to)
  dieAt('before the manifest names it')
}
const probe = await open(process.execPath)
const handles = Object.getPrototypeOf(probe) as typeof probe
await probe.close()
const { appendFile } = handles
handles.appendFile = async function (this: typeof probe, line, options) {
  if (step === 'within the line of the manifest') {
    await appendFile.call(this, String(line).slice(0, 40), options)
    die()
  }
  await appendFile.call(this, line, options)
  dieAt('before rows are removed')
}
syncBuiltinESMExports()

const { archiveExpired } = await import('../../src/services/archive/archive.ts')
const { createArchiveStore } = await import('../../src/store/archive-store.ts')
const { createRetentionStore } = await import('../../src/store/retention-store.ts')
const db = openDatabase(JSON.parse(settings), () => undefined)
const store = createArchiveStore(db)
await archiveExpired({
  store: {
    ...store,
    async remove(rows) {
      const removed = await store.remove(rows.slice(0, step === 'between pages of rows' ? 1 : rows.length))
      dieAt('between pages of rows')
      return removed
    },
  },
  progress: createRetentionStore(db),
  policy: { folder, certificateAgeMs: 30 * 86_400_000, pauseSeconds: 0 },
  leftLists: async () => undefined,
  onArchived: () => undefined,
  onRemoved: () => undefined,
  isStopping: () => false,
  rest: async () => undefined,
})
await db.close()
