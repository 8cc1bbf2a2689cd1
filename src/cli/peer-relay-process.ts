/** Opens a socket for each socket on its command line, and connects the two. It ends when its standard input ends. */

import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream'

const sockets = process.argv.slice(2)
// Mode 700: root and this user alone.
const folder = mkdtempSync(path.join(tmpdir(), 'chancery-peer-'))
for (const [index, socket] of sockets.entries()) {
  const place = path.join(folder, String(index))
  const relay = createServer((near) => {
    const far = connect(socket)
    // An end or an error of one side ends the other.
    pipeline(near, far, near, () => undefined)
  })
  relay.listen(place, () => process.stdout.write(`${place}\n`))
}
// Ctrl-C is for the command, which may still have to say goodbye to the database.
process.on('SIGINT', () => undefined)
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
process.stdin.resume().on('end', () => process.exit())
