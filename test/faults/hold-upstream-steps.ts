/**
 * Loaded with --import before a service: the upstream order for `after-place.test` stands still after that step, and so on
 * by the name of each order, until the process is killed. It wraps what the service calls of Node, and says on standard
 * output which step is held.
 */

import { writeSync } from 'node:fs'
import fs from 'node:fs/promises'
import http, { type ClientRequest, type IncomingMessage } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'

/** URLs and tokens of the upstream → the name whose order they belong to. */
const owners = new Map<string, string>()
const held = new Set<string>()

/** Says so once; a request that is tried again is held again. */
function isHeld(step: string, name: string | undefined): boolean {
  if (name !== `${step.replace(' ', '-')}.test`) return false
  if (!held.has(step)) writeSync(1, `${JSON.stringify({ level: 'info', message: 'step held', step })}\n`)
  held.add(step)
  return true
}

interface Signed {
  kind: string | undefined
  name: string | undefined
}

/** What a request to the upstream does, by its URL and payload, and for which order. */
function read(body: unknown): Signed {
  const { protected: header, payload } = JSON.parse(String(body)) as { protected: string; payload: string }
  const { url } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { url: string }
  const text = Buffer.from(payload, 'base64url').toString()
  const name = owners.get(url)
  if (url.endsWith('/new-order')) return { kind: 'order', name: /"value":"([^"]+)"/.exec(text)?.[1] }
  if (url.endsWith('/finalize')) return { kind: 'finalize', name }
  if (url.includes('/cert/')) return { kind: 'download', name }
  if (url.includes('/chall/') && text === '{}') return { kind: 'answer', name }
  return { kind: undefined, name }
}

/** Whatever an answer for an order names is that order's. */
function learn(answer: IncomingMessage, name: string): void {
  const { location } = answer.headers
  if (location !== undefined) owners.set(location, name)
  const push = answer.push.bind(answer)
  answer.push = (chunk: Buffer | null, ...rest) => {
    const text = chunk === null ? '' : chunk.toString('latin1')
    for (const [, url = ''] of text.matchAll(/"(https?:[^"]+)"/g)) owners.set(url, name)
    for (const [, token = ''] of text.matchAll(/"token": ?"([\w-]+)"/g)) owners.set(token, name)
    return push(chunk, ...rest)
  }
}

const request = http.request as (...args: unknown[]) => ClientRequest
Object.assign(http, {
  request(...args: unknown[]) {
    const outgoing = request(...args)
    const end = outgoing.end.bind(outgoing) as (body?: unknown) => ClientRequest
    const emit = outgoing.emit.bind(outgoing) as (...args: unknown[]) => boolean
    let signed: Signed = { kind: undefined, name: undefined }
    Object.assign(outgoing, {
      end(body?: unknown) {
        if (typeof body === 'string' && body.includes('"protected"')) signed = read(body)
        return isHeld(`before ${signed.kind}`, signed.name) ? outgoing : end(body)
      },
      emit(event: string, ...rest: unknown[]) {
        if (event === 'response' && signed.name !== undefined) {
          // The upstream has done it, and the service never hears of it.
          if (isHeld(`after ${signed.kind}`, signed.name)) return true
          learn(rest[0] as IncomingMessage, signed.name)
        }
        return emit(event, ...rest)
      },
    })
    return outgoing
  },
})

const forEver = () => new Promise<never>(() => undefined)
const ownerOf = (file: unknown) => owners.get(String(file).split('/').at(-1) ?? '')
const { rename, rm } = fs
Object.assign(fs, {
  async rename(...args: Parameters<typeof rename>) {
    await rename(...args)
    if (isHeld('after place', ownerOf(args[1]))) await forEver()
  },
  async rm(...args: Parameters<typeof rm>) {
    await rm(...args)
    if (isHeld('after clean', ownerOf(args[0]))) await forEver()
  },
})

syncBuiltinESMExports()
