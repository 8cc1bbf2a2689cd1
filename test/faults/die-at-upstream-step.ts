/**
 * Loaded with --import before a service: ends the process with SIGKILL at the step of an upstream order that
 * CHANCERY_TEST_DIE_AT names, once the order of CHANCERY_TEST_DIE_FOR has begun. It wraps what the service calls of Node.
 */

import fs from 'node:fs/promises'
import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'

const step = process.env['CHANCERY_TEST_DIE_AT']
const name = process.env['CHANCERY_TEST_DIE_FOR'] ?? ''
let isArmed = false
const dieAt = (reached: string) => isArmed && reached === step && process.kill(process.pid, 'SIGKILL')

/** What a request to the upstream does, by its URL and payload. */
function stepOf(body: unknown): string | undefined {
  const { protected: header, payload } = JSON.parse(String(body)) as { protected: string; payload: string }
  const { url } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { url: string }
  const text = Buffer.from(payload, 'base64url').toString()
  if (url.endsWith('/new-order')) {
    isArmed ||= text.includes(`"${name}"`)
    return 'order'
  }
  if (url.endsWith('/finalize')) return 'finalize'
  if (/\/cert\//.test(url)) return 'download'
  if (/\/chall\//.test(url) && text === '{}') return 'answer'
  return undefined
}

const request = http.request as (...args: unknown[]) => ClientRequest
Object.assign(http, {
  request(...args: unknown[]) {
    const outgoing = request(...args)
    const end = outgoing.end.bind(outgoing) as (body?: unknown) => ClientRequest
    Object.assign(outgoing, {
      end(body?: unknown) {
        const kind = typeof body === 'string' && body.includes('"protected"') ? stepOf(body) : undefined
        if (kind !== undefined) {
          dieAt(`before ${kind}`)
          outgoing.once('response', (answer: IncomingMessage) => answer.once('end', () => dieAt(`after ${kind}`)))
        }
        return end(body)
      },
    })
    return outgoing
  },
})

const { rename, rm } = fs
Object.assign(fs, {
  async rename(...args: Parameters<typeof rename>) {
    await rename(...args)
    if (String(args[1]).includes('acme-challenge')) dieAt('after place')
  },
  async rm(...args: Parameters<typeof rm>) {
    await rm(...args)
    if (String(args[0]).includes('acme-challenge')) dieAt('after clean')
  },
})

syncBuiltinESMExports()
