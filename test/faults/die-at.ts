/**
 * Loaded with --import before the signer: ends the process with SIGKILL at the step of a certificate's signature that
 * CHANCERY_TEST_DIE_AT names. It wraps what the daemon calls of Node, so the daemon itself knows nothing of it.
 */

import crypto from 'node:crypto'
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'

const step = process.env['CHANCERY_TEST_DIE_AT']
const die = () => process.kill(process.pid, 'SIGKILL')
const dieAt = (name: string) => name === step && die()

/** `kind` and `method` of frames (signer/protocol/frames.ts). */
const [REQUEST, RESULT, SIGN_CERTIFICATE] = [16, 17, 3]
/** Every TBSCertificate is a SEQUENCE, and the message of a test signature is not. */
const SEQUENCE = 0x30
let isRecorded = false

type Wrapped = (this: net.Socket, ...args: unknown[]) => unknown
type Write = (fd: number, bytes: Buffer, done: (error: Error | null, written: number) => void) => void

const emit = net.Socket.prototype.emit as Wrapped
net.Socket.prototype.emit = function (this: net.Socket, ...args: unknown[]) {
  const [event, chunk] = args
  if (event === 'data' && Buffer.isBuffer(chunk) && chunk[4] === REQUEST && chunk[9] === SIGN_CERTIFICATE)
    dieAt('request read')
  return emit.apply(this, args) as boolean
}

const sign = crypto.sign as (...args: unknown[]) => unknown
Object.assign(crypto, {
  sign(...args: unknown[]) {
    const isTbs = (args[1] as Buffer)[0] === SEQUENCE
    if (isTbs) dieAt('before the signature')
    const signature = sign(...args)
    if (isTbs) dieAt('signature made')
    return signature
  },
})

const write = fs.write as unknown as Write
const writeAuditLine: Write = (fd, bytes, done) => {
  if (!bytes.includes('"method":"signCertificate"')) {
    write(fd, bytes, done)
    return
  }
  if (step === 'audit line torn') {
    fs.writeSync(fd, bytes, 0, bytes.length >> 1)
    die()
  }
  write(fd, bytes, (error, written) => {
    dieAt('audit line written')
    isRecorded = true
    done(error, written)
  })
}
Object.assign(fs, { write: writeAuditLine })

const send = net.Socket.prototype.write as Wrapped
net.Socket.prototype.write = function (this: net.Socket & { _handle?: { fd: number } }, ...args: unknown[]) {
  const frame = args[0] as Buffer
  const isReply = isRecorded && frame[4] === RESULT
  if (isReply && step === 'reply torn') {
    fs.writeSync(this._handle!.fd, frame, 0, frame.length >> 1)
    die()
  }
  if (isReply && step === 'reply sent') args.push(die)
  return send.apply(this, args) as boolean
}

syncBuiltinESMExports()
