/** What an answer to http-01 may look like (docs/decisions/what-strangers-write.md). */

import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { validateHttp01 } from '../../workers/validate/http-01.ts'
import { aJob, CHALLENGE_PATH, KEY_AUTHORIZATION, type ScriptedWeb, startRaw } from '../workers/scripted-web.ts'
import { HTTP_ANSWERS, TARGETS } from './http-answers.ts'

const FOUND = `HTTP/1.1 200 OK\r\n\r\n${KEY_AUTHORIZATION}`
const NOT_FOUND = 'HTTP/1.1 404 Not Found\r\n\r\n'

describe('an answer to http-01', () => {
  let web: ScriptedWeb
  let answer: Buffer = Buffer.alloc(0)
  before(async () => {
    web = await startRaw((socket: Socket) => {
      const path = web.requests.at(-1)?.split(' ')[1] ?? ''
      socket.end(path === CHALLENGE_PATH ? answer : TARGETS.includes(path) ? FOUND : NOT_FOUND)
    })
  })
  after(() => web.close())

  for (const [name, from, go, bytes, refusal] of HTTP_ANSWERS) {
    const reader = go ? 'Go takes it' : 'Go does not take it'
    const outcome = refusal === undefined ? 'proves control' : `is refused: ${refusal}`
    test(`${name} (${from}) ${outcome} (${reader})`, async () => {
      answer = bytes
      const verdict = await validateHttp01(aJob(web.port))
      if (refusal === undefined) assert.ok(verdict.ok, JSON.stringify(verdict))
      else assert.ok(!verdict.ok && verdict.detail.includes(refusal), JSON.stringify(verdict))
    })
  }
})
