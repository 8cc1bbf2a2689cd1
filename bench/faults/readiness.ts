/** Asking the parts of the stand, past the balancer. */

import { request } from 'node:https'
import { connect } from 'node:net'
import type { Place } from './link.ts'

const PATIENCE_MS = 2_000

export function accepts(place: Place): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(place)
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(PATIENCE_MS, () => end(false))
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })
}

/** @returns undefined when the instance at this port does not answer with 200 */
export function answerOf(port: number, path: string): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    // Its certificate is the balancer's to check: an expired one is a fault of its own.
    const options = { host: '127.0.0.1', port, path, rejectUnauthorized: false, timeout: PATIENCE_MS, agent: false }
    const asked = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).once('error', () => resolve(undefined))
      response.once('end', () => resolve(response.statusCode === 200 ? Buffer.concat(chunks) : undefined))
    })
    asked.once('timeout', () => asked.destroy())
    asked.once('error', () => resolve(undefined)).end()
  })
}
