/** A name server for validators of other servers: every name has one address, and nothing else (RFC 1035 §4). */

import { createSocket } from 'node:dgram'

const HEADER_BYTES = 12
const TYPE_A = 1
const CLASS_IN = 1
/** Response, recursion desired and available, no error. */
const FLAGS = 0x8180
/** A pointer to the name of the question. */
const NAME_OF_QUESTION = 0xc00c
const TTL_SECONDS = 60

/** @returns a function that ends it. @throws Error when the address cannot be listened on. */
export async function startNameServer(host: string, port: number, address: string): Promise<() => Promise<void>> {
  const socket = createSocket('udp4')
  await new Promise<void>((resolve, reject) => {
    socket.once('error', (error) => reject(new Error(`name server on ${host}:${port}: ${error.message}`)))
    socket.bind(port, host, resolve)
  })
  socket.removeAllListeners('error')
  // A validator that went away is no concern of ours; its authorization will tell.
  socket.on('error', () => undefined)
  socket.on('message', (query, { port: senderPort, address: sender }) => {
    const answer = answerTo(query, address)
    if (answer) socket.send(answer, senderPort, sender)
  })
  return () => new Promise((resolve) => socket.close(() => resolve()))
}

/** @returns undefined for what is no query with one question. */
export function answerTo(query: Buffer, address: string): Buffer | undefined {
  if (query.length < HEADER_BYTES || (query[2] ?? 0) & 0x80 || query.readUInt16BE(4) !== 1) return undefined
  let end = HEADER_BYTES
  while (end < query.length && query[end] !== 0) end += 1 + (query[end] as number)
  end += 5
  if (end > query.length) return undefined
  const isAddress = query.readUInt16BE(end - 4) === TYPE_A && query.readUInt16BE(end - 2) === CLASS_IN
  const header = Buffer.alloc(HEADER_BYTES)
  query.copy(header, 0, 0, 2)
  header.writeUInt16BE(FLAGS, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(isAddress ? 1 : 0, 6)
  return Buffer.concat([header, query.subarray(HEADER_BYTES, end), ...(isAddress ? [addressRecord(address)] : [])])
}

function addressRecord(address: string): Buffer {
  const record = Buffer.alloc(16)
  record.writeUInt16BE(NAME_OF_QUESTION, 0)
  record.writeUInt16BE(TYPE_A, 2)
  record.writeUInt16BE(CLASS_IN, 4)
  record.writeUInt32BE(TTL_SECONDS, 6)
  record.writeUInt16BE(4, 10)
  record.set(address.split('.').map(Number), 12)
  return record
}
