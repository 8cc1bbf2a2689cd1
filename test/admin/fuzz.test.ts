/**
 * Requests of every kind to every endpoint, a tenth of them over HTTP: none makes the service fail, and every reply is one
 * of its description. A nightly run has 20,000. `CHANCERY_TEST_SEED` repeats a run.
 */

import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { Agent, request as httpRequest } from 'node:http'
import { after, before, describe, test } from 'node:test'
import type { AnyEndpoint } from '../../src/admin/admin-endpoint.ts'
import type { AdminReply, AdminRequest } from '../../src/admin/admin-message.ts'
import { Router } from '../../src/admin/admin-router.ts'
import { ENDPOINTS } from '../../src/admin/endpoints.ts'
import { errorsOf } from '../../src/admin/openapi.ts'
import { ADMIN_ERRORS, type AdminErrorCode } from '../../src/domain/admin-error.ts'
import { ROLES } from '../../src/domain/administrator.ts'
import { registeredClient, startResponder } from '../support/acme-client.ts'
import { type FuzzActor, type FuzzCase, fuzzCases, KnownNames } from '../support/admin/admin-fuzz.ts'
import { type AdminInstance, adminInstance } from '../support/admin/admin-instance.ts'
import { administrator, clientWith } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { operate } from '../support/operator.ts'
import { WAIT_MS } from '../support/patience.ts'
import { sharedService } from '../support/shared-service.ts'

const IS_NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'
const CASES = IS_NIGHTLY ? 20_000 : 2_500
const CASES_OVER_HTTP = IS_NIGHTLY ? 1_000 : 250
/** Fewer than the application takes at once. */
const AT_ONCE = 16
const MOST_SHOWN = 1_000
/** The HTTP server itself refuses longer ones. */
const MOST_PATH = 4_000

const seed = Number(process.env['CHANCERY_TEST_SEED']) || randomInt(1, 2 ** 31)
const router = new Router(ENDPOINTS)

type Reply = Pick<AdminReply, 'status' | 'headers' | 'body'>

describe('whatever is asked of the Admin API', () => {
  const { service } = administered(() => sharedService('crowded'))
  /** Answers in this process. */
  let instance: AdminInstance
  let known: KnownNames
  const tokens: Partial<Record<FuzzActor, string>> = {}

  before(async () => {
    console.log(`seed of the requests: CHANCERY_TEST_SEED=${seed}`)
    instance = await adminInstance(service)
    const responder = await startResponder(service.http01Port)
    for (const name of ['a.test', 'b.test', 'c.test'])
      await (await registeredClient(service.directoryUrl)).obtain([name], responder)
    await responder.close()
    const owners = new Set<string>()
    for (const role of ROLES) {
      const owner = await administrator(service, `owner-${role}`)
      owners.add((await owner.get('/me')).json.id)
      // No logout and no new password ends an API token.
      const scope = role === 'registrar' ? ['team'] : []
      const made = await owner.send('POST', '/tokens', { name: role, role, scope })
      owners.add(made.json.id)
      tokens[role] = made.json.token
    }
    known = new KnownNames(owners)
    const reader = clientWith(service.baseUrl, tokens.admin ?? '')
    for (const { method, path } of ENDPOINTS)
      if (method === 'GET' && !path.includes('{')) known.keep(path, (await reader.get(path)).json)
  })
  after(async () => {
    await instance?.close()
    for (const words of [
      ['maintenance', 'off'],
      ['signing', 'resume'],
    ])
      await operate(service, ...words)
  })

  function requestOf(one: FuzzCase): AdminRequest {
    const token = tokens[one.actor]
    return {
      requestId: randomUUID(),
      method: one.method,
      path: known.fill(one),
      query: one.query,
      authorization: token === undefined ? one.authorization : `Bearer ${token}`,
      contentType: one.contentType,
      body: Buffer.from(one.body),
      address: '192.0.2.7',
    }
  }

  async function inProcess(request: AdminRequest): Promise<Reply> {
    const { ref } = instance.thread
    const reply = await ref.ask('request', request, WAIT_MS)
    if (reply.stream !== undefined) await ref.ask('cancel', reply.stream, WAIT_MS)
    return reply.octets ? { ...reply, body: Buffer.from(reply.octets).toString() } : reply
  }

  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  after(() => agent.destroy())

  function overHttp({ method, path, query, authorization, contentType, body }: AdminRequest): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const headers = {
        'content-length': body.length,
        ...(authorization !== undefined && { authorization }),
        ...(contentType !== undefined && { 'content-type': contentType }),
      }
      const target = `/api${path}${query === '' ? '' : `?${query}`}`
      const sent = httpRequest(`${service.baseUrl}`, { path: target, method, headers, agent }, async (incoming) => {
        const pieces: Buffer[] = []
        for await (const piece of incoming) pieces.push(piece)
        const type = incoming.headers['content-type'] ?? ''
        resolve({
          status: incoming.statusCode ?? 0,
          headers: [['Content-Type', type]],
          body: method === 'HEAD' ? '' : Buffer.concat(pieces).toString(),
        })
      })
      sent.once('error', reject)
      sent.end(body)
    })
  }

  async function runAll(cases: readonly FuzzCase[], ask: (request: AdminRequest) => Promise<Reply>) {
    const statuses = new Map<number, number>()
    const succeeded = new Set<string>()
    const failures = new Map<string, string>()
    let next = 0
    const worker = async () => {
      for (let one = cases[next++]; one; one = cases[next++]) {
        const request = requestOf(one)
        const reply = await ask(request)
        const { body, fault } = judge(one.actor, request, reply)
        if (fault !== undefined && !failures.has(fault)) failures.set(fault, shown(one.actor, request, reply))
        statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
        if (reply.status >= 300 || fault !== undefined) continue
        succeeded.add(router.match(request.method, request.path).endpoint.id)
        if (request.method === 'POST') known.keep(request.path, body)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    const untouched = ENDPOINTS.filter(({ id }) => !succeeded.has(id)).map(({ id }) => id)
    console.log(Object.fromEntries(statuses), 'never succeeded:', untouched.join(' '))
    assert.deepEqual([...failures].map((failure) => failure.join('\n')).join('\n\n'), '')
    return { statuses, untouched }
  }

  test('gets a reply that its description has', async () => {
    const { statuses, untouched } = await runAll(fuzzCases(CASES, seed), inProcess)
    assert.ok((statuses.get(200) ?? 0) > CASES / 5, 'requests that fit get through')
    assert.ok(untouched.length < ENDPOINTS.length / 2, 'to most endpoints')
  })

  test('gets one over HTTP, too', async () => {
    const isShort = (one: FuzzCase) => known.fill(one).length + one.query.length < MOST_PATH
    await runAll(fuzzCases(CASES_OVER_HTTP, seed + 1).filter(isShort), overHttp)
    assert.deepEqual(
      service.log.filter(({ message }) => message === 'admin request failed'),
      [],
    )
  })
})

function shown(actor: FuzzActor, { method, path, query, contentType, body }: AdminRequest, reply: Reply): string {
  const sent = Buffer.from(body).toString().slice(0, MOST_SHOWN)
  const got = { ...reply, body: reply.body.slice(0, MOST_SHOWN) }
  return JSON.stringify({ seed, actor, method, path, query, contentType, sent, got })
}

/** @returns the parsed body, or what is wrong with the reply */
function judge(actor: FuzzActor, request: AdminRequest, reply: Reply) {
  const endpoint = endpointOf(request.method, request.path)
  try {
    if (reply.status >= 300) return { body: judgeError(endpoint, request, reply), fault: undefined }
    assert.ok(endpoint, 'a success has an endpoint')
    assert.ok(endpoint.roles === 'none' || endpoint.roles.some((role) => role === actor), 'the role may do this')
    return { body: judgeSuccess(endpoint, request, reply), fault: undefined }
  } catch (error) {
    return { body: undefined, fault: `${endpoint?.id}: ${(error as Error).message}` }
  }
}

function judgeSuccess({ reply: described }: AnyEndpoint, { method }: AdminRequest, reply: Reply): unknown {
  const type = typeOf(reply)
  if (described.status === 204) {
    assert.deepEqual([reply.status, reply.body], [204, ''])
    return undefined
  }
  assert.equal(type, described.contentType ?? 'application/json')
  if (described.contentType !== undefined || method === 'HEAD') return undefined
  const body = JSON.parse(reply.body) as unknown
  if (reply.status === described.status && described.schema) described.schema.parse(body)
  return body
}

/** Errors of any request whatever. */
const EVERYWHERE: readonly AdminErrorCode[] = [
  'invalid_request',
  'unsupported_media_type',
  'too_large',
  'method_not_allowed',
]

function judgeError(endpoint: AnyEndpoint | undefined, { method }: AdminRequest, reply: Reply): undefined {
  assert.equal(typeOf(reply), 'application/problem+json')
  if (method === 'HEAD' && reply.body === '') return
  const { error, message, type, detail, status, request_id, fields } = JSON.parse(reply.body) as {
    error: AdminErrorCode
    fields?: { field: string; message: string }[]
  } & Record<string, unknown>
  assert.ok(Object.hasOwn(ADMIN_ERRORS, error), `the code ${error} is known`)
  assert.deepEqual([status, ADMIN_ERRORS[error]], [reply.status, reply.status])
  assert.equal(type, `urn:chancery:admin:error:${error}`)
  assert.equal(detail, message)
  assert.ok(typeof message === 'string' && message !== '' && typeof request_id === 'string')
  for (const { field, message } of fields ?? []) assert.ok(typeof field === 'string' && message !== '')
  const described = endpoint ? [...errorsOf(endpoint), ...EVERYWHERE] : ['not_found', 'method_not_allowed']
  assert.ok(described.includes(error), `${endpoint?.id ?? 'an unknown path'} has ${error} in its description`)
}

const typeOf = ({ headers }: Reply) => headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? ''

function endpointOf(method: string, path: string): AnyEndpoint | undefined {
  try {
    return router.match(method, path).endpoint
  } catch {
    return undefined
  }
}
