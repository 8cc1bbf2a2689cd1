/** Records of the signer that are damaged on its disk: bytes are others than were written. */

import { execFile } from 'node:child_process'
import { closeSync, existsSync, openSync, readdirSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { OWN_ROOT } from '../../servers/build.ts'
import type { Finding } from '../finding.ts'
import type { Stand } from '../stand.ts'
import { until } from '../waiting.ts'
import type { Begun, Checked, Kind, Kinds } from './kind.ts'

const STREAMS = ['certificates', 'revocations', 'decisions'] as const
/** A look of the signer at a closed file comes with a list, once a minute, and at another file each time. */
const LOOK_MS = 70_000
const CLOSED = /^\.\d+-\d+(\.gz)?$/
const ALARM = 'records of the signer are damaged'

/** An alarm comes when there is more damage than before, and each damage is repaired: so each has a line more. */
let lines = 0

interface RecordFile {
  path: string
  stream: string
  /** Closed files of its stream. */
  closed: number
}

/** @param isClosed the newest file that takes no more lines, where there is one */
function filesOf({ auditFile }: Stand, isClosed: boolean): RecordFile[] {
  const names = readdirSync(path.dirname(auditFile))
  return STREAMS.flatMap((stream) => {
    const file = `${auditFile}.${stream}`
    const base = path.basename(file)
    const closed = names.filter((name) => name.startsWith(base) && CLOSED.test(name.slice(base.length)))
    // Their names begin with a sequence number, and are made one after the other.
    const chosen = isClosed ? closed.sort().at(-1) : base
    const place = path.join(path.dirname(auditFile), chosen ?? '')
    if (chosen === undefined || !existsSync(place) || statSync(place).size === 0) return []
    return [{ path: place, stream, closed: closed.length }]
  })
}

/** Flips a bit in the middle of each of the first lines. @returns the file as it was */
function damage(file: string): () => void {
  const whole = readFileSync(file)
  const isZipped = file.endsWith('.gz')
  const bytes = Buffer.from(isZipped ? gunzipSync(whole) : whole)
  for (let [left, start] = [lines, 0]; left > 0 && start < bytes.length; left--) {
    const end = bytes.indexOf(0x0a, start)
    bytes[(start + end) >> 1]! ^= 1
    start = end + 1
  }
  // The signer has the file open and writes at its end.
  const write = (content: Buffer) => {
    const open = openSync(file, 'r+')
    writeSync(open, content, 0, content.length, 0)
    closeSync(open)
  }
  if (!isZipped) {
    write(bytes)
    return () => write(whole)
  }
  writeFileSync(file, gzipSync(bytes))
  return () => writeFileSync(file, whole)
}

async function check(stand: Stand, { path: file, stream, closed }: RecordFile, seen: () => boolean, withinMs: number) {
  const at = Date.now()
  const findings: Finding[] = []
  const expect = async (what: string, look: () => boolean | Promise<boolean>, ms: number) =>
    until(what, look, ms).catch(() => findings.push({ trouble: 'unseen', at, what }))
  const name = file.replace(/\.gz$/, '')
  await expect(`audit verify says nothing of ${name}`, async () => (await verify(stand)).includes(name), withinMs)
  await expect(`no alarm says that ${stream} are damaged`, seen, withinMs + (closed + 1) * LOOK_MS)
  return { findings } satisfies Checked
}

/** @returns what `audit verify` complains of; nothing when all is well */
function verify({ auditFile }: Stand): Promise<string> {
  const words = [path.join(OWN_ROOT, 'dist/signer/start.cjs'), 'audit', 'verify', auditFile]
  return new Promise((resolve) => execFile(process.execPath, words, (error, _, stderr) => resolve(error ? stderr : '')))
}

/** Reads which alarms both instances have logged since. */
function alarmsFrom({ folder, instances }: Stand): () => string[] {
  const files = instances.map((_, who) => path.join(folder, `instance-${who}.log`))
  const from = files.map((file) => statSync(file).size)
  return () =>
    files.flatMap((file, who) =>
      readFileSync(file)
        .subarray(from[who])
        .toString()
        .split('\n')
        .filter((line) => line.includes(ALARM)),
    )
}

const damaged = (isClosed: boolean): Kind => ({
  about: `bits of a record file of the signer flip, of ${isClosed ? 'a closed one where there is one' : 'the one in use'}`,
  lasts: [0, 0],
  begin(stand, chance): Begun {
    const closed = filesOf(stand, isClosed)
    const files = closed.length > 0 ? closed : filesOf(stand, false)
    const file = files[chance.whole(files.length)]!
    const alarms = alarmsFrom(stand)
    lines += 1
    const repair = damage(file.path)
    return {
      target: path.basename(file.path),
      end: () => undefined,
      check: (withinMs) =>
        check(stand, file, () => alarms().some((line) => line.includes(` of ${file.stream}`)), withinMs),
      repair: async () => repair(),
    }
  },
})

export const RECORD_KINDS: Kinds = {
  'damage-current-records': damaged(false),
  'damage-closed-records': damaged(true),
}
