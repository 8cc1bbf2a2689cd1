/** Somebody who is signed in to the Admin API, and signs in again where the session is gone. */

import { type RequestOptions, request as requestPlainly } from 'node:http'
import { request } from 'node:https'

export interface Reply {
  /** 0 where nobody answered. */
  status: number
  text: string
}

export interface Login {
  /** Without the path of the Admin API. */
  baseUrl: string
  username: string
  password: string
}

const TIMEOUT_MS = 10_000

export class Caller {
  readonly #login: Login
  #token: string | undefined

  constructor(login: Login) {
    this.#login = login
  }

  /** @throws Error when it cannot sign in */
  async signIn(): Promise<this> {
    const { baseUrl, username, password } = this.#login
    const reply = await ask(`${baseUrl}/api/auth/login`, 'POST', {}, JSON.stringify({ username, password }))
    if (reply.status !== 200) throw new Error(`${username} cannot sign in: ${reply.status} ${reply.text}`)
    this.#token = (JSON.parse(reply.text) as { token: string }).token
    return this
  }

  /** Somebody else, signed in. @throws Error when they cannot */
  as(username: string, password: string): Promise<Caller> {
    return new Caller({ ...this.#login, username, password }).signIn()
  }

  /** @param path below the base path of the Admin API. @throws Error when it cannot sign in */
  async send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Reply> {
    if (this.#token === undefined) await this.signIn()
    const once = () =>
      ask(
        `${this.#login.baseUrl}/api${path}`,
        method,
        { ...headers, authorization: `Bearer ${this.#token}` },
        body && JSON.stringify(body),
      )
    const reply = await once()
    if (reply.status !== 401) return reply
    await this.signIn()
    return once()
  }

  /** @returns the body of the reply. @throws Error for any other status */
  async get<T>(path: string): Promise<T> {
    return JSON.parse(successful(await this.send('GET', path)).text) as T
  }

  /** @returns the body of the reply. @throws Error when nothing was made */
  async make<T = { id: string }>(path: string, body: object, headers?: Record<string, string>): Promise<T> {
    return JSON.parse(successful(await this.send('POST', path, body, headers)).text) as T
  }

  /** @throws Error unless it was answered with success */
  async done(method: string, path: string, body?: object): Promise<void> {
    successful(await this.send(method, path, body))
  }
}

function successful(reply: Reply): Reply {
  if (reply.status >= 200 && reply.status < 300) return reply
  throw new Error(`${reply.status} ${reply.text}`)
}

function ask(url: string, method: string, headers: Record<string, string>, body?: string): Promise<Reply> {
  return new Promise((resolve) => {
    const options: RequestOptions & { rejectUnauthorized: boolean } = {
      method,
      headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      timeout: TIMEOUT_MS,
      agent: false,
      // Its certificate is the balancer's to check.
      rejectUnauthorized: false,
    }
    const sent = (url.startsWith('https:') ? request : requestPlainly)(url, options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.once('error', ({ message }) => resolve({ status: 0, text: message }))
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
    })
    sent.once('timeout', () => sent.destroy(new Error('no answer within ten seconds')))
    sent.once('error', ({ message }) => resolve({ status: 0, text: message })).end(body)
  })
}
